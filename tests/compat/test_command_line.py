"""Settings given as objects, and settings that Hydra cannot compose."""

import inspect
import json
import re
import sys
from argparse import Namespace
from dataclasses import fields

import hydra
import hydra._internal.utils
import pytest
from fairseq import models, options
from fairseq.dataclass import utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import register_model_architecture
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from fairseq.tasks.translation import TranslationTask
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ValidationError

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import command_line
from fairseq_posattn.compat.checks import check_ranges, lines_of
from fairseq_posattn.compat.command_line import explain
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.mechanisms import ENCODER_MECHANISMS
from fairseq_posattn.training.flags import parts_of
from fairseq_posattn.training.models import PosAttnClassifierConfig
from fairseq_posattn.training.models.registration import all_options


@pytest.mark.parametrize("module", [models, utils])
def test_an_object_of_settings_is_accepted(module):
    cfg = TransformerLanguageModelConfig(dropout=0.7)
    with pytest.raises(KeyError, match="_parent"):
        inspect.unwrap(module.merge_with_parent)(TransformerLanguageModelConfig, cfg)
    merged = module.merge_with_parent(TransformerLanguageModelConfig, cfg)
    assert merged.dropout == 0.7


@pytest.mark.parametrize("name", ["--bf16", "--amp"])
def test_options_of_training_alone_are_reported_elsewhere(name, monkeypatch, caplog):
    monkeypatch.setattr(command_line, "check", lambda settings: None)
    for parser, more in (
        (options.get_training_parser(), ["--arch", "transformer"]),
        (options.get_generation_parser(), ["--path", "model.pt"]),
    ):
        monkeypatch.setattr(sys, "argv", ["fairseq", "data", name, *more])
        options.parse_args_and_arch(parser)
    assert [record.getMessage()[: len(name)] for record in caplog.records] == [name]


OTHERS = {"generation": "", "eval_lm": "", "validation": "--num-shards"}
OTHERS["interactive_generation"] = "--prefix-size --results-path --lm-path --num-shards"


@pytest.mark.parametrize("command, reported", OTHERS.items())
def test_options_of_another_command_are_reported(command, reported, monkeypatch, caplog):
    monkeypatch.setattr(command_line, "check", lambda settings: None)
    task = "language_modeling" if command == "eval_lm" else "translation"
    words = ["fairseq", "data", "--task", task, "--path", "model.pt", "--num-shards", "2"]
    if "generation" in command:
        words += ["--prefix-size", "2", "--results-path", "folder", "--lm-path", "lm.pt"]
    monkeypatch.setattr(sys, "argv", words)
    options.parse_args_and_arch(getattr(options, f"get_{command}_parser")())
    assert " ".join(line.split()[0] for line in caplog.messages) == reported


def test_translation_is_the_default_task(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--arch", "dman_wmt_en_de", "--x"])
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_training_parser())
    assert "unrecognized arguments: --x" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--arch", "mtsa_tagger"])
    with pytest.raises(UsageError, match="--arch mtsa_tagger: it needs --task sequence_tagging"):
        options.parse_args_and_arch(options.get_training_parser())


def test_bf16_needs_no_tpu():
    words = ["data", "--arch", "transformer", "--optimizer", "adam", "--bf16"]
    for parse in (options.parse_args_and_arch, inspect.unwrap(options.parse_args_and_arch)):
        parsed = parse(options.get_training_parser(), words)
        assert parsed.tpu == (parse is not options.parse_args_and_arch)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of matching names, which fairseq has, too
@pytest.mark.parametrize(
    "text, override, line",
    [
        ("", "optimization.max_updates=3", "optimization.max_updates=3 Key 'max_updates' not in"),
        ("", "optimization.lr=[1", r"optimization.lr=\[1 no viable alternative at input"),
        ("", "optimization.lr='1,2'", "lr='1,2' Invalid value assigned: str is not a ListConfig"),
        ("checkpoint: {savedir: a}", "", "merging 'mine' .* 'savedir' not in 'CheckpointConfig'"),
        ("task:\n  a: b\n c: d", "", r"found '<block mapping start>' in .*mine.yaml\", line 3,"),
    ],
)
def test_an_error_of_hydra_is_one_line(tmp_path, monkeypatch, capsys, text, override, line):
    (tmp_path / "mine.yaml").write_text(text)
    store = ConfigStore.instance()
    monkeypatch.setattr(store, "repo", dict(store.repo))
    store.store("mine", FairseqConfig)

    def work():
        with hydra.initialize_config_dir(str(tmp_path), version_base="1.1"):
            hydra.compose("mine", [override] if override else [])

    with pytest.raises(SystemExit):
        hydra._internal.utils.run_and_report.__wrapped__(work)
    assert len(capsys.readouterr().err.splitlines()) > 3
    with pytest.raises(UsageError, match=line) as error:
        hydra._internal.utils.run_and_report(work)
    assert "\n" not in str(error.value)


def bleu_options(text, setup_task=TranslationTask.setup_task.__func__):
    """Return what a task of translation that validates by BLEU makes of its options."""
    detok = "{'target_lang': 'en'}"
    cfg = Namespace(eval_bleu=True, eval_bleu_args=text, eval_bleu_detok_args=detok)
    with pytest.raises(AttributeError):  # of languages and data, which come next
        setup_task(TranslationTask, cfg)
    return json.loads(cfg.eval_bleu_args), json.loads(cfg.eval_bleu_detok_args)


@pytest.mark.parametrize("text", ['{"beam": 2}', "{'beam': 2}"])
def test_options_of_bleu_are_read_in_both_quotes(text, caplog):
    assert bleu_options(text) == ({"beam": 2}, {"target_lang": "en"})
    assert not caplog.records
    with pytest.raises(ValueError, match="double quotes"):
        bleu_options(text, inspect.unwrap(TranslationTask.setup_task.__func__))


def test_an_unknown_option_of_bleu_is_reported(caplog):
    assert bleu_options('{"bem": 2}')[0] == {"bem": 2}
    assert "--eval-bleu-args: bem changes nothing; of " in caplog.text and " beam" in caplog.text


@pytest.mark.parametrize("text", ["{beam: 2}", "[1]", "beam=2", "{'beam': f()}"])
def test_options_of_bleu_that_are_no_dictionary_are_one_line(text):
    with pytest.raises(UsageError, match="--eval-bleu-args .*: it must be a dictionary in JSON"):
        bleu_options(text)


# --- Options that a model does not read -----------------------------------------------------------


LEARNED, HEADS = {"encoder_learned_pos": True}, {"encoder_attention_heads": 8}
RELU, MAPS = {"map_activation": "relu"}, {"dropout_places": "maps"}
DA, PLAIN = "da_transformer_classifier", "posattn_transformer"
CONSTANT = {"encoder_sublayers": "mtsa,ffn", "mtsa_source_layers": 0, "mtsa_divide_source": True}


@pytest.mark.parametrize(
    "arch, options, line",
    [
        (
            "dman_iwslt_de_en",
            {"mtsa_masks": "none"},
            "mtsa-masks none .*: it is for mtsa, and this",
        ),
        ("mpsan_classifier", HEADS, "encoder-attention-heads 8 .*: it is for transformer, "),
        (
            "mpsan_classifier",
            {"encoder": "none", "encoder_hidden_dim": 8},
            "encoder-hidden-dim 8 .*: there is --encoder none",
        ),
        (DA, RELU, "map-activation relu .*: it is for --encoder mtsa, mpsan, disan, bi_blosan, "),
        (DA, MAPS, "dropout-places maps .*: it is for --encoder mtsa, mpsan, disan, bi_blosan, "),
        ("dman_iwslt_de_en", {"min_params_to_wrap": 9}, "min-params-to-wrap 9 "),
        ("cspan_classifier", {"pooling": "mean", "pooling_queries": 8}, "pooling-queries 8 "),
        (
            PLAIN,
            LEARNED | {"encoder_sublayers": "san, rpr, ffn"},
            "encoder-learned-pos True .*: --encoder-sublayers has rpr, and no position embeddings",
        ),
        (
            PLAIN,
            LEARNED | {"no_token_positional_embeddings": True},
            "encoder-learned-pos True .*: there is --no-token-positional-embeddings",
        ),
        ("mtsa_classifier", {"heads_dropout": 0.1}, "heads-dropout 0.1 .*: it is for transformer"),
        ("dman_classifier", {"sentence_ends": "."}, "sentence-ends . .*: it is for "),
        (DA, {"da_clip_threshold": 3.0}, "da-clip-threshold 3.0 .*: it is for --da-mapping clip, "),
        (
            "cspan_classifier",
            {"cspan_fusion": "none", "lstm_layers": 2},
            "lstm-layers 2 .*: there is --cspan-fusion none",
        ),
        (PLAIN, CONSTANT, "mtsa-divide-source True .*: there is --mtsa-source-layers 0"),
        (
            "mtsa_classifier",
            {"mtsa_scores": "token2token", "mtsa_divide_source": True},
            "mtsa-divide-source True .*: there is --mtsa-scores token2token",
        ),
        (
            "mtsa_classifier",
            {"mtsa_scores": "source2token", "mtsa_token_scale": "identity"},
            "mtsa-token-scale identity .*: there is --mtsa-scores source2token",
        ),
        (
            "mtsa_classifier",
            {"mtsa_scores": "none", "mtsa_masks": "others"},
            "mtsa-masks others .*: there is --mtsa-scores none",
        ),
        (
            "mtsa_classifier",
            {"mtsa_scores": "token2token", "mtsa_source_layers": 1},
            "mtsa-source-layers 1 .*: there is --mtsa-scores token2token",
        ),
        (
            "mtsa_classifier",
            {"mtsa_source_bias": 5.0},
            "mtsa-source-bias 5.0 .*: there is --mtsa-source-scale identity",
        ),
        (
            "posattn_classifier",
            {"encoder": "none", "ngram_buckets": 8},
            "ngram-buckets 8 .*: there is --word-ngrams 1",
        ),
        (
            "dman_classifier",
            {"encoder_sublayers": "mtsa,ffn", "no_attention_bias": True},
            "no-attention-bias True .*: it is for attention, --encoder mtsa, and this model has ",
        ),
        (
            PLAIN,
            {"adaptive_softmax_cutoff": [50], "share_decoder_input_output_embed": True},
            "share-decoder-input-output-embed .*: an adaptive softmax",
        ),
        (
            "posattn_classifier",
            {"encoder_sublayers": "rope,ffn", "embedding_scale": "sqrt"},
            "embedding-scale sqrt .*: --encoder-sublayers has rope, and no position embeddings",
        ),
    ],
)
def test_an_option_that_the_model_does_not_read_is_reported(arch, options, line):
    (reported,) = lines_of("warnings", {"arch": arch, **options})
    assert re.match(f"--{line.replace(' .*', ' changes nothing', 1)}", reported)


@pytest.mark.parametrize(
    "arch, options",
    [
        ("dman_iwslt_de_en", {"dman_max_distance": 3, "dropout": 0.3}),
        ("dman_iwslt_de_en", {"heads_activation": "relu", "heads_dropout": 0.1}),
        (DA, RELU | {"head_dim": 8}),
        (DA, RELU | {"head_highway_layers": 1}),
        (DA, MAPS | {"head_highway_layers": 1}),
        (DA, {"da_clip_threshold": 3.0, "da_mapping": "clip"}),
        ("mtsa_classifier", MAPS | RELU | {"mtsa_scores": "none"}),
        ("mtsa_classifier", {"mtsa_source_bias": 5.0, "mtsa_source_scale": "log_sigmoid"}),
        ("mtsa_classifier", {"mtsa_scores": "source2token", "mtsa_divide_source": True}),
        ("multi_head_classifier", HEADS),
        ("transformer", HEADS),
        ("cspan_classifier", {"pooling": "mean", "pooling_queries": 16}),  # the default
        ("cspan_classifier", {"cspan_fusion": "parallel", "lstm_layers": 2}),
        ("cspan_big_classifier", {"cspan_fusion": "none", "lstm_layers": 3}),  # the preset's
        (PLAIN, LEARNED | {"share_decoder_input_output_embed": True}),
        (PLAIN, LEARNED | {"decoder_sublayers": "rpr,cross,ffn"}),
        (PLAIN, {"encoder_sublayers": "san, rope, ffn", "rope_base": 5.0}),
        ("han_classifier", {"sentence_ends": "."}),
        ("posattn_classifier", {"encoder": "none", "ngram_buckets": 8, "word_ngrams": 2}),
    ],
)
def test_an_option_that_the_model_reads_is_not_reported(arch, options):
    assert not list(lines_of("warnings", {"arch": arch, **options}))


def test_an_architecture_of_the_user_is_checked_as_its_model():
    arch = "posattn_transformer_of_mine"
    register_model_architecture("posattn_transformer", arch)(lambda args: None)
    with pytest.raises(UsageError, match="--dman-max-distance -1: it must be 0 or more"):
        check_ranges({"arch": arch, "dman_max_distance": -1})
    (line,) = lines_of("warnings", {"arch": arch, "sman_radius": "2"})
    assert line.startswith("--sman-radius 2 changes nothing")


def test_training_reports_unread_options(caplog):
    model = {"_name": "posattn_transformer", "encoder_sublayers": "san,ffn", "sman_radius": "2"}
    command_line.check_config(OmegaConf.create({"model": model}))
    assert "--sman-radius 2 changes nothing: it is for sman" in caplog.text


# A layer is described with these, whoever takes a part of it.
OF_LAYERS = {"encoder_ffn_embed_dim", "encoder_normalize_before", "activation_fn"}
OF_LAYERS |= {"activation_dropout"}
MADE = [("encoder", name) for name in ENCODERS if name != "transformer"]
MADE += [("encoder_sublayers", f"{name},ffn") for name in ENCODER_MECHANISMS]


@pytest.mark.parametrize("option, value", MADE)
def test_options_that_an_encoder_reads_declare_it(option, value):
    read = set()

    class Watched(Namespace):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    options = {"encoder": "transformer", "max_positions": 16, "da_mapping": "clip", option: value}
    cfg = Watched(**vars(all_options(Namespace(**options), PosAttnClassifierConfig)))
    ENCODERS[cfg.encoder](cfg, dim=48)
    known = fields(PosAttnClassifierConfig)
    readers = {option.name: option.metadata.get("readers", ()) for option in known}
    own = {name for name in read - OF_LAYERS if readers.get(name)}
    assert all(parts_of(options).intersection(readers[name]) for name in own), own


# --- Errors that are one line, and those that keep their traceback --------------------------------

CHILD = """Traceback (most recent call last):
  File "torch/multiprocessing/spawn.py", line 90, in _wrap
ValueError: the first of two

Traceback (most recent call last):
  File "fairseq_cli/train.py", line 96, in main
    raise
    ^^^^^
{}
"""


LR = "optimizer.lr is missing in the YAML file, where it has no default; that of "


WRONG = "Value 'x' of type 'str' could not be converted to Integer"


class ProcessException(Exception):
    """A stand-in of PyTorch's error of a spawned process."""


def raised(error, by_a_command=True):
    """Return the line for an error raised within, or outside, a file of fairseq's commands."""
    path = "/somewhere/fairseq_cli/train.py" if by_a_command else "/somewhere/train.py"
    try:
        exec(compile("raise error", path, "exec"), {"error": error.with_traceback(None)})
    except BaseException as caught:
        return explain(caught, caught.__traceback__)


@pytest.mark.parametrize(
    "error, line",
    [
        (FileNotFoundError(2, "No such file or directory", "x.txt"), "x.txt: No such file or dir"),
        (FileExistsError("data-bin/dict.zh-cn.txt"), "data-bin/dict.zh-cn.txt exists: "),
        (
            Exception("Size of sample #0 is invalid (=31) since max_positions=30, skip this"),
            "sentence 0, counted from 0, is too long: it has 31 tokens and the model takes 30; ",
        ),
        (AssertionError("world size is 2 but have 0 available devices"), "--distributed-world-s"),
        (ValueError("--share-all-embeddings requires a joined dictionary"), "--share-all-embed"),
        (Exception("Not so. Please use `--ddp-backend=legacy_ddp`"), "Not so. Please use `--ddp"),
        (FileNotFoundError("Dataset not found: a,b (bin)"), "bin has no split a,b of this task"),
        (AssertionError("could not find dataset: bin/input0/dev"), "bin/input0/dev: there is no"),
        (ImportError("Please install editdistance"), "a package is missing: Please install"),
        (ImportError("Cannot find FSDP. Please install fairscale"), "a package is missing: Please"),
        (
            ValidationError(f"{WRONG}\n    full_key: encoder_layers\n"),
            "--encoder-layers x: it must",
        ),
        (ConfigAttributeError("Missing key lr\n    full_key: optimizer.lr\n"), LR),
        (ProcessException(CHILD.format("a.b.UsageError: --lr -1")), "--lr -1"),
        (ProcessException(CHILD.format("OSError: Model file not found: x")), "x: there is no such"),
        (ProcessException(CHILD.format("IsADirectoryError: [Errno 21] Is a dir: 'x'")), "x: Is a"),
    ],
)
def test_a_mistake_is_explained(error, line):
    assert raised(error).startswith(line)
    assert raised(error, by_a_command=False) is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        ValueError("a-bug -- where?"),
        AssertionError(),
        KeyError("nonesuch"),
        OSError("nothing is named"),
        ProcessException(CHILD.format("AssertionError")),
        ProcessException("killed"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors_keep_their_traceback(error):
    assert raised(error) is None


def test_an_error_of_another_package_keeps_its_traceback():
    work = compile("raise ValueError('--x')", "/somewhere/json/decoder.py", "exec")
    try:
        exec(compile("exec(work)", "/somewhere/fairseq_cli/train.py", "exec"), {"work": work})
    except ValueError as error:
        line = explain(error, error.__traceback__)
    assert line is None
