"""``fairseq-generate --num-shards 3 --shard-id 0`` translates a third of the sentences.

fairseq (0.12.2, fairseq-fixed 0.12.3.1) takes the flags and ignores them, so that each of three
commands translates all, and divides by zero where it has nothing to translate: where a shard is
empty, or all sentences are left out by ``--skip-invalid-size-inputs-valid-test``.
"""

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.command_loops import generation_loop
from fairseq_posattn.compat.patching import around


@around(generation_loop, "_main")
def _take_a_shard(main, cfg, *args, **kwargs):
    shards, distributed = cfg.dataset.num_shards, cfg.distributed_training
    if shards > 1:  # it shares the sentences by these two
        distributed.distributed_world_size = shards
        distributed.distributed_rank = cfg.dataset.shard_id
    try:
        return main(cfg, *args, **kwargs)
    except ZeroDivisionError as error:  # of its timer, which never ran
        raise UsageError(
            f"--gen-subset {cfg.dataset.gen_subset}: there is nothing to translate: all sentences "
            "are longer than the model's positions, or --num-shards is more than there are batches"
        ) from error
