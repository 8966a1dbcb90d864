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


STOCK = "tests/training/models/test_against_fairseq.py"
FLAGS = "tests/training/models/test_every_flag.py"
DROPOUTS = "tests/training/models/test_dropouts.py"
NAMED = "tests/training/models/test_architectures.py::test_"
ARCHITECTURES = NAMED + "every_way_of_naming_builds_the_same_model"
PRESET_FLAG = NAMED + "a_flag_equal_to_the_preset_changes_nothing"
MULTIHEAD = "tests/model/test_multihead.py"
HEAD = "tests/model/test_classification_head.py"
POOLING = "tests/model/test_pooling.py"
BATCHES = "tests/model/test_sentence_batches.py"
NGRAMS = "tests/model/test_ngrams.py"
BLOCKS = "tests/model/encoders/test_bi_blosan.py"
CRITERIONS = "tests/training/test_sentence_criterions.py"
SEQ2SEQ = "tests/training/models/test_seq2seq.py::test_"
REPEATS = SEQ2SEQ + "only_regular_orders_repeat_sentences"
SHARED = SEQ2SEQ + "hypotheses_that_share_an_encoding_score_as_with_one_each"
PREFIX = SEQ2SEQ + "incremental_decoding_remembers_a_padded_prefix"
MASKS = "tests/attention/test_masks.py"
FUSED = "tests/attention/test_fused.py::test_"
LAYERS = "a_layer_by_kernels_equals_one_without"
MTSA_LOOPS = "tests/training/models/test_mtsa_by_loops.py"
VECTORS = "tests/training/models/test_word_vectors.py"
IMPORTS = "tests/test_imports.py"
MANS_LOOPS = "tests/training/models/test_mans_by_loops.py"
STARTS = "tests/model/test_starts.py"
GRAPHS = "tests/compat/test_cuda_graphs.py"
MATCHING = "tests/compat/test_matching.py"
DMAN = "tests/attention/test_dman.py"
CPU = "tests/attention/test_cpu.py"
CONTRACT = "tests/attention/test_contract.py::test_"
BY_HEAD = CONTRACT + "long_texts_without_gradients_are_attended_by_head"
LOADING = "tests/compat/test_loading.py"
CUT = "tests/inference/test_translation.py::test_a_line_is_cut_only_if_its_end_does_not_fit"

STAGES = "tests/preparation/test_stages.py"
DATA = "tests/compat/test_data.py"
MANIFEST = "tests/text/test_manifest.py"

FAULTS_BY_FILE = {
    "preparation/stages.py": [
        ("if stages.home == stages.work:", "if True:", MANIFEST),
        (
            "            self.record = {}\n            self._refuse",
            "            self._refuse",
            STAGES,
        ),
        ("            if self.force:\n", "            if False:\n", STAGES),
    ],
    "text/lines.py": [
        ('removesuffix("\\r")', 'rstrip("\\r")', "tests/text/test_lines.py"),
    ],
    "model/seq2seq.py": [
        ("self.training and self.pads_right and incremental_state is None", "True", STOCK),
        ("self.embed_scale * self.embed_tokens", "self.embed_tokens", STOCK),
        ("x.masked_fill(padding.unsqueeze(-1), 0.0)", "x", STOCK),
        ("self_attn_padding_mask=padding,", "", STOCK),
        ("weights[:alignment_heads].mean(0)", "weights.mean(0)", STOCK),
        ("aligned = self.num_layers - 1 if", "aligned = 0 if", STOCK),
        ("need_attn=number == aligned,", "need_attn=True,", STOCK),
        ("x = x + positions.to(x.dtype)\n", "pass\n", STOCK),
        ("= self.dropout_module(x)", "= x", DROPOUTS),
        ("x = self.project_out_dim(x)", "pass", STOCK),
        ("x = self.layernorm_embedding(x)", "pass", STOCK),
        ("x, padding)", "x)", STOCK),
        ("normalize_before=side.normalize_before,", "", STOCK),
        ('"encoder_dim": cfg.encoder.embed_dim', '"encoder_dim": cfg.decoder.embed_dim', STOCK),
        ("cfg.max_target_positions", "cfg.max_target_positions + 1", FLAGS),
        ("causal=True, ", "", STOCK),
    ],
    "training/models/seq2seq.py": [
        ("else cfg.min_params_to_wrap", "else 1", FLAGS),
        ("repeats if torch.equal(new_order, regular) else 1", "repeats", REPEATS),
        ("    INITIALIZATIONS[str(cfg.start)](layer)\n", "", FLAGS),
        (
            "        if not path:\n",
            "        if path:\n",
            SEQ2SEQ + "start_bert_initializes_embeddings_but_not_those_of_a_file",
        ),
    ],
    "attention/fused.py": [
        (
            '"triton" or (impl == "auto" and x.is_cuda)',
            '"triton" or impl == "auto"',
            FUSED + "auto_uses_no_kernels_on_a_cpu",
        ),
        ("<= bound", ">= 0", FUSED + "kernels_that_are_wrong_or_fail_are_not_used"),
    ],
    "attention/kernels/fused_triton.py": [
        (" - normal * along[:, None]", "", FUSED + "a_sum_and_its_norm_equal_pytorch"),
        (
            "gradient = ops.drop(gradient, DROPOUT.scale, DROPOUT, stream,",
            "gradient = ops.drop(gradient, DROPOUT.scale, DROPOUT, stream + 1,",
            FUSED + "dropout_of_a_sum_is_the_same_backward",
        ),
        ("streams.count += 1", "pass", FUSED + "dropout_of_a_sum_is_the_same_backward"),
        ("            if RELU:  #", "            if False:  #", FUSED + LAYERS),
    ],
    "model/transformer_layer.py": [
        ("self.sublayer.output_bias, self.dropout", "None, self.dropout", FUSED + LAYERS),
        (
            "output_bias, self.dropout.probability",
            "output_bias, 0.0",
            FUSED + "dropout_of_a_layer_acts_in_its_places",
        ),
        ("layer.activation, layer.activation_dropout", "layer.activation, layer.dropout", DROPOUTS),
        ("Dropout(layer.dropout, type", "Dropout(layer.activation_dropout, type", DROPOUTS),
        ("replace(layer, causal=False)", "layer", STOCK),
        (
            "replace(layer, causal=False)",
            "replace(layer, causal=False, attention_dropout=0.0)",
            DROPOUTS,
        ),
        ("x + drop(output, self.dropout.probability)", "x + output", DROPOUTS),
        ("x + drop(output, ", "drop(x + output, ", STOCK),
        ("*sizes, mechanism, heads)", "*sizes, mechanism)", MANS_LOOPS),
    ],
    "model/feed_forward.py": [
        (
            "drop(self.activation(self.fc1(x)), self.dropout.probability)",
            "self.activation(self.fc1(x))",
            DROPOUTS,
        ),
        (
            "drop(self.activation(self.fc1(x)), self.dropout.probability)",
            "self.activation(drop(self.fc1(x), self.dropout.probability))",
            STOCK,
        ),
    ],
    "model/caches.py": [
        ("new_order[::hypotheses] // hypotheses", "new_order[::hypotheses]", SHARED),
        (
            '{"padding": _no_padding(newest["key"]), **newest}',
            '{**newest, "padding": _no_padding(newest["key"])}',
            PREFIX,
        ),
        ("self.written = before[:, new_order]", "self.written = before", MULTIHEAD),
    ],
    "model/multihead.py": [
        (
            "unflatten(2, (hypotheses, length)).transpose(1, 2)",
            "unflatten(2, (length, hypotheses)).permute(0, 3, 1, 2, 4)",
            MULTIHEAD,
        ),
        ("self.activation(heads)", "heads", MANS_LOOPS),
        ("drop(activated, self.dropout.probability)", "activated", DROPOUTS),
    ],
    "attention/mechanism.py": [
        ("value = getattr(flags, field.name)", "value = field.default", FLAGS),
    ],
    "model/mechanisms.py": [
        ("attention_dropout=cfg.attention_dropout", "attention_dropout=cfg.dropout", DROPOUTS),
        ("attention_dropout=cfg.attention_dropout,", "", DROPOUTS),
        ("        dropout=cfg.dropout,\n", "", DROPOUTS),
        ("activation_dropout=cfg.activation_dropout,", "", DROPOUTS),
        ("activation=str(cfg.activation_fn),", "", FLAGS),
        ("dropout=layer.attention_dropout", "dropout=0.0", DROPOUTS),
    ],
    "model/initialization.py": [
        ("kaiming_uniform_(part.weight)", "xavier_uniform_(part.weight)", STARTS),
        ("elif isinstance(part, PackedLinear)", "elif False", STARTS),
    ],
    "model/classifier.py": [
        ("[Dropout(0.0 if inner else dropout), Highway", "[nn.Identity(), Highway", DROPOUTS),
        ("Highway(dim, activation, inner)", "Highway(dim, activation)", HEAD),
        ("mapped = self.activation(", "mapped = F.elu(", HEAD),
        ("gate * mapped + (1 - gate) * x", "(1 - gate) * mapped + gate * x", HEAD),
        ("second, first - second", "second, second - first", HEAD),
        (
            "self.encoder(self.dropout(vectors), key_padding_mask)",
            "self.encoder(vectors, key_padding_mask)",
            DROPOUTS,
        ),
    ],
    "model/pooling.py": [
        (
            "count = (~key_padding_mask).sum(1, keepdim=True)",
            "count = key_padding_mask.long().sum(1, keepdim=True)",
            POOLING,
        ),
        ("(lengths - self.window).clamp(min=0)", "lengths", POOLING),
    ],
    "model/embeddings.py": [
        ("prefix * HASH_FACTOR + last", "prefix + last", NGRAMS),
        ("absent.append(padding[:, n - 1 :])", "absent.append(padding[:, : 1 - n])", NGRAMS),
    ],
    "model/sentence_batches.py": [
        ("F.pad(closes, (1, 0), value=True)", "F.pad(separates, (1, 0), value=True)", BATCHES),
        ("lengths = lengths - ends.long()", "lengths = lengths - 1", BATCHES),
    ],
    "model/encoders/cspan.py": [
        ("positional = drop(positional, self.dropout, self.training)", "", DROPOUTS),
        (
            "drop(self.semantic_norm(attended), self.dropout",
            "drop(self.semantic_norm(attended), 0",
            DROPOUTS,
        ),
    ],
    "model/encoders/__init__.py": [
        ("0.0 if linear_dropout else cfg.dropout", "0.0", DROPOUTS),
        ("0.0 if linear_dropout else cfg.dropout", "cfg.dropout", DROPOUTS),
        ("        map_dropout=linear_dropout,\n", "", DROPOUTS),
        ("        dropout=cfg.dropout,\n", "", DROPOUTS),
        ("        map_dropout=mechanisms.get_linear_dropout(cfg),\n", "", DROPOUTS),
        ("0.0 if within else float(cfg.dropout)", "0.0", DROPOUTS),
        ('"none", ', "", DROPOUTS),
    ],
    "model/encoders/transformer.py": [
        ("max_positions=cfg.max_positions", "max_positions=cfg.max_positions + 1", FLAGS),
        ("mechanisms.get_linear_dropout(cfg)", "0.0", DROPOUTS),
        (
            "tokens if self.input_map is None else self.input_map(tokens)",
            "tokens",
            "tests/model/encoders/test_transformer_encoder.py",
        ),
        (
            "with_positions(self.scale * x)",
            "with_positions(x)",
            "tests/model/encoders/test_transformer_encoder.py",
        ),
    ],
    "model/encoders/mtsa.py": [
        ("map_dropout=self.map_dropout)", ")", DROPOUTS),
        ('{"activation": self.activation}', "{}", MTSA_LOOPS),
        ("None if cfg.no_attention_bias else 0.0", "0.0", MTSA_LOOPS),
        (
            "self.value_map.weight.chunk(num_heads)",
            "[self.value_map.weight]",
            "tests/model/encoders/test_mtsa_encoder.py",
        ),
    ],
    "training/presets.yaml": [(", dropout_places: maps", "", MTSA_LOOPS)],
    "attention/mtsa.py": [
        ('            "include_self": flags.mtsa_include_self,\n', "", FLAGS),
        ("                bias=flags.mtsa_source_bias,\n", "", FLAGS),
        ("                divide=flags.mtsa_divide_source,\n", "", FLAGS),
        ('            "source_scale": str(flags.mtsa_source_scale),\n', "", FLAGS),
        ('            "fusion_gate": flags.mtsa_fusion_gate,\n', "", FLAGS),
        ("drop(source, p)\n", "source\n", MTSA_LOOPS),
        ("drop(weights, p), ", "weights, ", MTSA_LOOPS),
    ],
    "attention/source2token.py": [
        (
            "self.output(drop(between, self.dropout, self.training))",
            "self.output(between)",
            MTSA_LOOPS,
        )
    ],
    "attention/masks.py": [("_allow(distances != 0)", "_allow(distances == distances)", MASKS)],
    "attention/dman.py": [
        ("F.relu if flags.heads_activation == RELU_IN_DMAN else None", "F.relu", MANS_LOOPS),
        ("layer.max_positions - 1", "layer.max_positions", FLAGS),
        ('"max_distance": flags.dman_max_distance or ', '"max_distance": ', FLAGS),
        (
            "F.threshold(logits, LOG_FLOOR, math.inf, inplace=True)",
            "F.threshold(logits, 2 * LOG_FLOOR, math.inf, inplace=True)",
            DMAN,
        ),
    ],
    "common/archives.py": [
        ('or ".." in parts ', "", "tests/preparation/test_archives.py"),
        ("(member.isreg() or member.isdir())", "True", "tests/preparation/test_archives.py"),
    ],
    "attention/cpu.py": [
        ("rows.t().flatten()", "rows.flatten()", CPU),
        ("for some in parts]", "for some in parts[::-1]]", CPU),
    ],
    "attention/encoded.py": [
        ("scores.add_(self.mask)", "scores", MULTIHEAD),
        ("self.mask.index_select(0, sentences)", "self.mask", MULTIHEAD),
    ],
    "attention/softmax.py": [
        ("scores.index_fill_(1, padded, -math.inf)", "pass", BY_HEAD),
        ("int(kept[-1]) + 1", "int(kept[-1])", BY_HEAD),
        ("context.masked_fill_(fully_masked, 0.0)", "pass", BY_HEAD),
    ],
    "attention/headwise.py": [
        (
            "drop(x.expand(-1, weight.size(0), -1, -1), dropout, training)",
            "drop(x, dropout, training).expand(-1, weight.size(0), -1, -1)",
            DROPOUTS,
        ),
        ("bias, self.dropout, self.training)", "bias)", DROPOUTS),
    ],
    "model/encoders/recurrent.py": [
        ("dropout=dropout if layers > 1 else 0.0", "dropout=0.0", DROPOUTS),
        ("dropout=dropout if layers > 1 else 0.0", "dropout=0.0", DROPOUTS),
    ],
    "attention/positions.py": [
        (
            "return x + relative_sinusoids(",
            "return x - relative_sinusoids(",
            "tests/model/encoders/test_transformer_encoder.py",
        )
    ],
    "model/encoders/bi_blosan.py": [
        ("sizes + (sizes**3 < 2 * lengths)", "sizes + 1", BLOCKS),
        (
            "self.between(pooled, blocks.padding.all(-1))",
            "self.between(pooled, blocks.padding.any(-1))",
            BLOCKS,
        ),
        ("self.block_gate(context, pooled)", "self.block_gate(pooled, context)", BLOCKS),
    ],
    "model/encoders/cnn.py": [
        ("x = x + F.glu(", "x = F.glu(", "tests/model/encoders/test_cnn.py"),
        (
            "x = x.masked_fill(key_padding_mask.unsqueeze(1), 0.0)",
            "pass",
            "tests/model/encoders/test_cnn.py",
        ),
    ],
    "compat/loading.py": [("        complete(state)\n", "", MATCHING)],
    "compat/matching.py": [("model[option] == known[option].default != value:", "True:", MATCHING)],
    "training/models/word_vectors.py": [
        ("embedding.weight[dictionary.pad()] = 0", "pass", VECTORS),
        ("embedding.weight.requires_grad = not cfg.freeze_embeddings", "pass", FLAGS),
    ],
    "training/models/registration.py": [
        ("field(default=value,", "field(default=known[option].default,", ARCHITECTURES),
        ('"add_args": staticmethod(model.add_args)', "", PRESET_FLAG),
    ],
    "scoring/labels.py": [("occurs = occurrences > 0", "occurs = occurrences >= 0", CRITERIONS)],
    "training/criterions/sentences.py": [
        ("right, predicted + true]", "right, true]", CRITERIONS),
        ("self.l2 / 2 *", "self.l2 *", CRITERIONS),
        ("columns[:, ids] =", "columns[:, : len(ids)] =", CRITERIONS),
    ],
    "inference/tokens.py": [("len(tokens) >= self.longest", "len(tokens) > self.longest", CUT)],
    "compat/data.py": [
        ("check_split(self, split, combine)", "pass", DATA),
        (
            "dictionary, combine=combine)\n    if rows is None:",
            "dictionary)\n    if rows is None:",
            DATA,
        ),
    ],
    "compat/cuda_graphs.py": [
        ("self.loss_scale.fill_(self.scaler.loss_scale)", "pass", GRAPHS),
        ("self.optimizer._needs_sync = True", "pass", GRAPHS),
        ("torch._foreach_add_(present(earlier), present(self.gradients))", "pass", GRAPHS),
    ],
    "compat/checkpoints/__init__.py": [
        ("TIMES * size + EXTRA_BYTES", "100 * (TIMES * size + EXTRA_BYTES)", LOADING),
        ("length > tensor.untyped_storage().nbytes() or ", "", LOADING),
    ],
    "compat/checkpoints/form.py": [
        ("LEGACY_PICKLES = 5", "LEGACY_PICKLES = 4", LOADING),
        ("match[1] in names", "False", LOADING),
        ("return io.BufferedReader(indexed)", "return file", LOADING),
    ],
    "compat/command_line.py": [
        ("if is_dataclass(cfg):", "if False:", "tests/compat/test_command_line.py")
    ],
    "attention/san.py": [
        ("from torch import Tensor", "import fairseq\nfrom torch import Tensor", IMPORTS)
    ],
}
FAULTS = [Fault(file, *fault) for file, faults in FAULTS_BY_FILE.items() for fault in faults]


def unplantable() -> list[str]:
    """Faults whose text does not stand in its file just once."""
    counts = {f: (ROOT / PACKAGE / f.file).read_text().count(f.old) for f in FAULTS}
    return [f"{f.file}: {f.old!r} stands there {n} times" for f, n in counts.items() if n != 1]


def passes(fault: Fault | None, tests: str, log: Path) -> bool:
    """Return whether ``tests`` pass on a copy of the project, with the fault in it if given."""
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
