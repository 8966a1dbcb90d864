"""Plants faults in the package, one at a time, and tells which of them no test finds.

    python tests/plant_faults.py [WORD ...]    # of the faults, those whose file or code has a WORD

Each fault is planted in a copy of the package and only the tests that ought to find it are run, in
a process forked from one that has imported fairseq. Exits 1 if a fault survives, or if the tests
fail without one. Some minutes on two cores; `python -m pytest tests/test_plant_faults.py` merely
looks whether all of them can still be planted.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "fairseq_posattn"


@dataclass(frozen=True)
class Fault:
    """Text of a file of the package that is replaced, and the tests that must fail then."""

    file: str
    old: str
    new: str
    tests: str


STOCK = "tests/models/test_against_fairseq.py"
FLAGS = "tests/models/test_every_flag.py"
DROPOUTS = "tests/models/test_dropouts.py"
NAMED = "tests/models/test_architectures.py::test_"
ARCHITECTURES = NAMED + "every_way_builds_the_model_of_the_flag"
PRESET_FLAG = NAMED + "a_flag_that_the_preset_has_set_already_changes_nothing"
MULTIHEAD = "tests/layers/test_multihead.py"
HEAD = "tests/layers/test_classification_head.py"
POOLING = "tests/layers/test_pooling.py"
BATCHES = "tests/layers/test_sentence_batches.py"
NGRAMS = "tests/layers/test_ngrams.py"
BLOCKS = "tests/encoders/test_bi_blosan.py"
F1 = "tests/criterions/test_sentence_classification.py"
SEQ2SEQ = "tests/models/test_seq2seq.py::test_"
REPEATS = SEQ2SEQ + "an_order_that_merely_has_as_many_rows_repeats_nothing"
SHARED = SEQ2SEQ + "hypotheses_that_share_an_encoding_score_as_if_each_had_its_own"
PREFIX = SEQ2SEQ + "a_padded_prefix_is_remembered_while_decoding"
MASKS = "tests/attention/test_masks.py"
MTSA_LOOPS = "tests/models/test_mtsa_by_loops.py"
VECTORS = "tests/models/test_word_vectors.py"
IMPORTS = "tests/test_imports.py"
MANS_LOOPS = "tests/models/test_mans_by_loops.py"
STARTS = "tests/layers/test_starts.py"
OLDER = "tests/mends/test_older_options.py"
BY_HEADS = "tests/attention/test_by_heads.py"

FAULTS = [
    # --- the translation model
    Fault(
        "networks/seq2seq.py", "self.embed_scale * self.embed_tokens", "self.embed_tokens", STOCK
    ),
    Fault("networks/seq2seq.py", "x.masked_fill(padding.unsqueeze(-1), 0.0)", "x", STOCK),
    Fault("networks/seq2seq.py", "self_attn_padding_mask=padding,", "", STOCK),
    Fault("networks/seq2seq.py", "weights[:alignment_heads].mean(0)", "weights.mean(0)", STOCK),
    Fault("networks/seq2seq.py", "aligned = self.num_layers - 1 if", "aligned = 0 if", STOCK),
    Fault("networks/seq2seq.py", "need_attn=number == aligned,", "need_attn=True,", STOCK),
    Fault("networks/seq2seq.py", "x = x + positions.to(x.dtype)\n", "pass\n", STOCK),
    Fault("networks/seq2seq.py", "return self.dropout_module(x)", "return x", DROPOUTS),
    Fault("networks/seq2seq.py", "x = self.project_out_dim(x)", "pass", STOCK),
    Fault("networks/seq2seq.py", "x = self.layernorm_embedding(x)", "pass", STOCK),
    Fault("networks/seq2seq.py", "x, padding)", "x)", STOCK),
    Fault("models/seq2seq.py", "else cfg.min_params_to_wrap", "else 1", FLAGS),
    Fault(
        "models/seq2seq.py", "repeats if torch.equal(new_order, regular) else 1", "repeats", REPEATS
    ),
    Fault(
        "networks/seq2seq.py",
        "        attention_dropout=cfg.attention_dropout",
        "        attention_dropout=cfg.dropout",
        DROPOUTS,
    ),
    Fault("networks/seq2seq.py", "activation_dropout=cfg.activation_dropout,", "", DROPOUTS),
    Fault("networks/seq2seq.py", "activation=str(cfg.activation_fn),", "", FLAGS),
    Fault("networks/seq2seq.py", "normalize_before=side.normalize_before,", "", FLAGS),
    Fault(
        "networks/seq2seq.py",
        "encoder_dim=cfg.encoder.embed_dim",
        "encoder_dim=cfg.decoder.embed_dim",
        STOCK,
    ),
    Fault(
        "networks/seq2seq.py",
        "max_positions=cfg.max_target_positions",
        "max_positions=cfg.max_target_positions + 1",
        FLAGS,
    ),
    Fault("networks/seq2seq.py", "causal=True,", "", STOCK),
    Fault("models/seq2seq.py", "    STARTS[str(cfg.start)](layer)\n", "", FLAGS),
    Fault(
        "models/seq2seq.py",
        "        if not path:\n",
        "        if path:\n",
        SEQ2SEQ + "embeddings_start_as_the_preset_says",
    ),
    # --- layers
    Fault(
        "layers/builder.py",
        "layer.activation, layer.activation_dropout",
        "layer.activation, layer.dropout",
        DROPOUTS,
    ),
    Fault(
        "layers/builder.py",
        "            layer.dropout,\n",
        "            layer.activation_dropout,\n",
        DROPOUTS,
    ),
    Fault("layers/builder.py", "replace(layer, causal=False)", "layer", STOCK),
    Fault(
        "layers/builder.py",
        "replace(layer, causal=False)",
        "replace(layer, causal=False, attention_dropout=0.0)",
        DROPOUTS,
    ),
    Fault(
        "layers/feed_forward.py",
        "self.dropout(self.activation(self.fc1(x)))",
        "self.activation(self.fc1(x))",
        DROPOUTS,
    ),
    Fault(
        "layers/feed_forward.py",
        "self.dropout(self.activation(self.fc1(x)))",
        "self.activation(self.dropout(self.fc1(x)))",
        STOCK,
    ),
    Fault(
        "layers/transformer_layer.py", "x = x + self.dropout(output)", "x = x + output", DROPOUTS
    ),
    Fault(
        "layers/transformer_layer.py",
        "x = x + self.dropout(output)",
        "x = self.dropout(x + output)",
        STOCK,
    ),
    Fault(
        "layers/multihead.py",
        "unflatten(2, (hypotheses, length)).transpose(1, 2)",
        "unflatten(2, (length, hypotheses)).permute(0, 3, 1, 2, 4)",
        MULTIHEAD,
    ),
    Fault(
        "layers/multihead.py",
        "new_order[::hypotheses] // hypotheses",
        "new_order[::hypotheses]",
        SHARED,
    ),
    Fault(
        "layers/multihead.py",
        '{"padding": _no_padding(key), **newest}',
        '{**newest, "padding": _no_padding(key)}',
        PREFIX,
    ),
    Fault("layers/multihead.py", "self.activation(heads)", "heads", MANS_LOOPS),
    Fault("layers/multihead.py", "(self.dropout(activated))", "(activated)", DROPOUTS),
    Fault(
        "layers/builder.py",
        "layer.num_heads, mechanism, joined\n",
        "layer.num_heads, mechanism\n",
        MANS_LOOPS,
    ),
    Fault(
        "layers/mechanisms.py",
        "F.relu if config.heads_activation == OF_MASKS else None",
        "F.relu",
        MANS_LOOPS,
    ),
    Fault(
        "layers/starts.py", "kaiming_uniform_(part.weight)", "xavier_uniform_(part.weight)", STARTS
    ),
    Fault("layers/starts.py", "elif isinstance(part, PackedLinear)", "elif False", STARTS),
    Fault("layers/mechanisms.py", "layer.max_positions - 1", "layer.max_positions", FLAGS),
    Fault(
        "layers/mechanisms.py", "max_distance=config.dman_max_distance or ", "max_distance=", FLAGS
    ),
    Fault("layers/mechanisms.py", "        include_self=config.mtsa_include_self,\n", "", FLAGS),
    Fault("layers/mechanisms.py", "            bias=config.mtsa_source_bias,\n", "", FLAGS),
    Fault("layers/mechanisms.py", "            divide=config.mtsa_divide_source,\n", "", FLAGS),
    Fault(
        "layers/mechanisms.py", "        source_scale=str(config.mtsa_source_scale),\n", "", FLAGS
    ),
    Fault("layers/mechanisms.py", "        fusion_gate=config.mtsa_fusion_gate,\n", "", FLAGS),
    Fault("layers/mechanisms.py", "        per_head=config.rpr_per_head,\n", "", FLAGS),
    Fault("layers/mechanisms.py", "        clip_threshold=config.da_clip_threshold,\n", "", FLAGS),
    Fault("layers/mechanisms.py", "        adjustment=str(config.da_adjustment),\n", "", FLAGS),
    Fault("layers/mechanisms.py", "dropout=layer.attention_dropout", "dropout=0.0", DROPOUTS),
    Fault(
        "layers/classification_head.py",
        "[Dropout(outer), Highway",
        "[nn.Identity(), Highway",
        DROPOUTS,
    ),
    Fault(
        "layers/classification_head.py",
        "Highway(output_dim, activation, inner)",
        "Highway(output_dim, activation)",
        HEAD,
    ),
    Fault(
        "layers/classification_head.py",
        "self.activation(self.map(self._drop(x)))",
        "F.elu(self.map(self._drop(x)))",
        HEAD,
    ),
    Fault(
        "layers/classification_head.py",
        "gate * self.activation(self.map(self._drop(x))) + (1 - gate) * x",
        "(1 - gate) * self.activation(self.map(self._drop(x))) + gate * x",
        HEAD,
    ),
    Fault(
        "layers/classification_head.py", "second, first - second", "second, second - first", HEAD
    ),
    Fault(
        "layers/pooling.py",
        "count = (~key_padding_mask).sum(1, keepdim=True)",
        "count = key_padding_mask.long().sum(1, keepdim=True)",
        POOLING,
    ),
    Fault("layers/pooling.py", "(lengths - self.window).clamp(min=0)", "lengths", POOLING),
    Fault("layers/ngrams.py", "before * FACTOR + word", "before + word", NGRAMS),
    Fault(
        "layers/ngrams.py",
        "absent.append(padding[:, words - 1 :])",
        "absent.append(padding[:, : 1 - words])",
        NGRAMS,
    ),
    Fault(
        "layers/sentence_batches.py",
        "F.pad(closes, (1, 0), value=True)",
        "F.pad(separates, (1, 0), value=True)",
        BATCHES,
    ),
    Fault(
        "layers/sentence_batches.py",
        "lengths = lengths - ends.long()",
        "lengths = lengths - 1",
        BATCHES,
    ),
    # --- encoders
    Fault("encoders/flags.py", "attention_dropout=cfg.attention_dropout,", "", DROPOUTS),
    Fault("encoders/flags.py", "        dropout=cfg.dropout,\n", "", DROPOUTS),
    Fault(
        "encoders/flags.py",
        "max_positions=cfg.max_positions",
        "max_positions=cfg.max_positions + 1",
        FLAGS,
    ),
    Fault(
        "encoders/cspan.py",
        "positional = drop(positional, self.dropout, self.training)",
        "",
        DROPOUTS,
    ),
    Fault(
        "encoders/cspan.py",
        "semantic = drop(semantic, self.dropout, self.training)",
        "",
        DROPOUTS,
    ),
    Fault("encoders/mpsan.py", "0.0 if map_dropout else cfg.dropout", "0.0", DROPOUTS),
    Fault("encoders/mpsan.py", "0.0 if map_dropout else cfg.dropout", "cfg.dropout", DROPOUTS),
    Fault("encoders/mpsan.py", "        map_dropout=map_dropout,\n", "", DROPOUTS),
    Fault("encoders/disan.py", "        dropout=cfg.dropout,\n", "", DROPOUTS),
    Fault("encoders/disan.py", "        map_dropout=map_dropout_of(cfg),\n", "", DROPOUTS),
    Fault("encoders/attention.py", "        map_dropout=map_dropout_of(cfg),\n", "", DROPOUTS),
    Fault("encoders/mtsa.py", "activation=activation, map_dropout=map_dropout)", ")", DROPOUTS),
    Fault("encoders/mtsa.py", "        activation=activation,\n", "", FLAGS),
    Fault("encoders/mtsa.py", "        bias=not cfg.no_attention_bias,\n", "", MTSA_LOOPS),
    Fault(
        "encoders/mtsa.py",
        "self.value_map.weight.chunk(num_heads)",
        "[self.value_map.weight]",
        "tests/encoders/test_mtsa_encoder.py",
    ),
    Fault("architectures/classifier.py", '    "dropout_places": "maps",\n', "", MTSA_LOOPS),
    Fault("attention/mtsa.py", "drop(source, p)\n", "source\n", MTSA_LOOPS),
    Fault("attention/mtsa.py", "drop(weights, p), ", "weights, ", MTSA_LOOPS),
    Fault(
        "attention/source2token.py",
        "self.output(self._drop(between))",
        "self.output(between)",
        MTSA_LOOPS,
    ),
    Fault(
        "attention/masks.py",
        "_let_through(distances != 0)",
        "_let_through(distances == distances)",
        MASKS,
    ),
    Fault("attention/by_heads.py", "of_scores.sub_(mean[head])", "of_scores", BY_HEADS),
    Fault("attention/by_heads.py", "of_scores.mul_(mask)", "pass", BY_HEADS),
    Fault("attention/by_heads.py", "mask.mul_(w)", "w", BY_HEADS),
    Fault("attention/by_heads.py", "of_pairs.add_(of_sums)", "of_pairs.copy_(of_sums)", BY_HEADS),
    Fault("attention/by_heads.py", "closed[head]", "closed[0, 0]", BY_HEADS),
    Fault("attention/by_heads.py", "g, ctx.of_kept, out=of_value", "g, 1, out=of_value", BY_HEADS),
    Fault("attention/by_heads.py", "if keep else None", "", BY_HEADS),
    Fault("encoders/__init__.py", "0.0 if by_itself else float(cfg.dropout)", "0.0", DROPOUTS),
    Fault("encoders/__init__.py", '"none", ', "", DROPOUTS),
    Fault(
        "attention/headwise.py",
        "draw_kept(_of_all_heads(x, weight), p)",
        "_of_all_heads(draw_kept(x, p), weight)",
        DROPOUTS,
    ),
    Fault("attention/headwise.py", "bias, self.dropout, self.training)", "bias)", DROPOUTS),
    Fault("attention/headwise.py", ".div_(1 - ctx.p)", "", MTSA_LOOPS),
    Fault("attention/headwise.py", "addcmul_(of_seen, mask)", "add_(of_seen)", MTSA_LOOPS),
    Fault("encoders/bilstm.py", "dropout=dropout if layers > 1 else 0.0", "dropout=0.0", DROPOUTS),
    Fault(
        "encoders/transformer.py",
        "words if self.input_map is None else self.input_map(words)",
        "words",
        "tests/encoders/test_transformer_encoder.py",
    ),
    Fault(
        "encoders/transformer.py",
        "with_positions(self.scale * x)",
        "with_positions(x)",
        "tests/encoders/test_transformer_encoder.py",
    ),
    Fault(
        "attention/sinusoid.py",
        "return words + relative_sinusoids(",
        "return words - relative_sinusoids(",
        "tests/encoders/test_transformer_encoder.py",
    ),
    Fault(
        "encoders/bi_blosan.py",
        "sizes + (sizes**3 < 2 * lengths)",
        "sizes + 1",
        BLOCKS,
    ),
    Fault(
        "encoders/bi_blosan.py",
        "self.between(pooled, blocks.padding.all(-1))",
        "self.between(pooled, blocks.padding.any(-1))",
        BLOCKS,
    ),
    Fault(
        "encoders/bi_blosan.py",
        "self.block_gate(context, pooled)",
        "self.block_gate(pooled, context)",
        BLOCKS,
    ),
    Fault(
        "encoders/hierarchical_cnn.py",
        "x = x + F.glu(",
        "x = F.glu(",
        "tests/encoders/test_hierarchical_cnn.py",
    ),
    Fault(
        "encoders/hierarchical_cnn.py",
        "x = x.masked_fill(key_padding_mask.unsqueeze(1), 0.0)",
        "pass",
        "tests/encoders/test_hierarchical_cnn.py",
    ),
    Fault(
        "encoders/recurrent.py",
        "dropout=dropout if layers > 1 else 0.0",
        "dropout=0.0",
        DROPOUTS,
    ),
    Fault(
        "networks/classifier.py",
        "self.encoder(self.dropout(vectors), key_padding_mask)",
        "self.encoder(vectors, key_padding_mask)",
        DROPOUTS,
    ),
    # --- words, named architectures, criterions, mends
    Fault("mends/checkpoint_reading.py", "    options.complete(state)\n", "", OLDER),
    Fault(
        "mends/older_options.py",
        "if model[option] == known[option].default != value:",
        "if True:",
        OLDER,
    ),
    Fault("models/word_vectors.py", "embedding.weight[dictionary.pad()] = 0", "pass", VECTORS),
    Fault("models/word_vectors.py", "embedding.weight.requires_grad = not freeze", "pass", FLAGS),
    Fault(
        "models/registration.py",
        "field(default=value,",
        "field(default=config.__dataclass_fields__[option].default,",
        ARCHITECTURES,
    ),
    Fault("models/registration.py", '"add_args": staticmethod(model.add_args)', "", PRESET_FLAG),
    Fault(
        "criterions/sentence_classification.py",
        "occurs = predicted + true > 0",
        "occurs = true > 0",
        F1,
    ),
    Fault(
        "criterions/sentence_classification.py",
        "occurs = predicted + true > 0",
        "occurs = predicted + true >= 0",
        F1,
    ),
    Fault(
        "criterions/sentence_criterion.py",
        "self.l2 / 2 *",
        "self.l2 *",
        "tests/criterions/test_sentence_criterion.py",
    ),
    Fault(
        "criterions/relatedness.py",
        "columns[:, ids] =",
        "columns[:, : len(ids)] =",
        "tests/criterions/test_relatedness.py",
    ),
    Fault(
        "mends/sentence_rows.py",
        "check_split(self, split, combine)",
        "pass",
        "tests/mends/test_sentence_rows.py",
    ),
    Fault(
        "mends/settings_objects.py",
        "if is_dataclass(cfg):",
        "if False:",
        "tests/mends/test_settings_objects.py",
    ),
    Fault(
        "attention/san.py",
        "from torch import Tensor",
        "import fairseq\nfrom torch import Tensor",
        IMPORTS,
    ),
]


def unplantable() -> list[str]:
    """Faults whose text does not stand in its file just once."""
    counts = {f: (ROOT / PACKAGE / f.file).read_text().count(f.old) for f in FAULTS}
    return [f"{f.file}: {f.old!r} stands there {n} times" for f, n in counts.items() if n != 1]


def passes(fault: Fault | None, tests: str, log: Path) -> bool:
    """Whether ``tests`` pass on a copy of the project with the fault in it, or without one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in (PACKAGE, "tests", "examples", "scripts"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if fault is not None:
            file = copy / PACKAGE / fault.file
            file.write_text(file.read_text().replace(fault.old, fault.new))
        process = FORKSERVER.Process(target=_test, args=(folder, tests, str(log)))
        process.start()
        process.join()
        return process.exitcode == 0


FORKSERVER = multiprocessing.get_context("forkserver")


def _test(folder, tests, log):
    import pytest

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    sys.path.insert(0, folder)
    status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", tests])
    sys.stdout.flush()  # why a test failed
    os._exit(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="plant only faults that have it")
    words = parser.parse_args().words
    if unplantable():
        sys.exit("\n".join(unplantable()))
    FORKSERVER.set_forkserver_preload(["fairseq_cli.train", "fairseq.models.transformer"])
    chosen = [f for f in FAULTS if not words or any(w in f"{f.file} {f.old}" for w in words)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for tests in sorted({fault.tests for fault in chosen}):
            if not passes(None, tests, log):
                wrong += 1
                print(f"{tests} fails without a fault:\n{log.read_text()[-2000:]}", flush=True)
        for number, fault in enumerate(chosen, start=1):
            survived = passes(fault, fault.tests, log)
            wrong += survived
            state = "SURVIVED" if survived else "found"
            line = fault.new.strip().splitlines()[0] if fault.new.strip() else "(left out)"
            print(
                f"{number}/{len(chosen)} {state}: {fault.file}: {fault.old.strip()!r} -> {line!r}",
                flush=True,
            )
    print(f"{wrong} of {len(chosen)} survived or could not be judged" if wrong else "all found")
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
