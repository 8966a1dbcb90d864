"""Time of beam search: the plugin's models beside fairseq's.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --sentences 128 --device cuda --dtype float16
    python benchmarks/decoding.py --int8

Models with random weights translate random sentences into exactly --target-length tokens by the
beam search of fairseq-generate. The two models of a pair take turns, batch by batch.
"""

import machine
import torch
import translation_pairs as pairs
from fairseq.sequence_generator import SequenceGenerator

from fairseq_posattn.model.projections import quantize_linear_layers


def measure(name, words, shape, arguments):
    """Return the times of a pair."""
    batch = pairs.random_batch(words, shape, arguments.device)
    models = pairs.build_pair(name, words, arguments)
    if arguments.int8:
        quantize_linear_layers(models[0])
    sample = {
        "id": torch.arange(len(batch.source)),
        "net_input": {"src_tokens": batch.source, "src_lengths": batch.lengths},
    }

    def translator(model):
        model.eval().make_generation_fast_(need_attn=False)
        limits = {"max_len_b": shape["target_length"], "min_len": shape["target_length"]}
        generator = SequenceGenerator([model], words, beam_size=arguments.beam, **limits)
        return lambda: generator.generate([model], sample)

    return {
        "beam": arguments.beam,
        "int8": arguments.int8,
        "batches": arguments.batches,
        **machine.beside_stock(
            name,
            *map(translator, models),
            arguments.batches,
            arguments.warmup,
            arguments.device,
        ),
    }


def tables(report):
    """Return the report's Markdown."""
    head = "time, ours / fairseq's (rounds)"
    rows = [
        pairs.describe(pair, report) | {head: machine.ratio(pair, "batches")}
        for pair in report["pairs"]
    ]
    return {"": machine.table(rows)}


def main():
    """Measure the pairs."""
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser, rounds=7, warmup=1, unit="batches")
    parser.add_argument("--beam", type=int, default=5, help="hypotheses per sentence")
    parser.add_argument(
        "--int8", action="store_true", help="run the linear layers of our models in int8"
    )
    pairs.run("decoding", parser.parse_args(), measure, tables)


if __name__ == "__main__":
    main()
