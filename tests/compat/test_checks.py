"""Settings that are refused in one line before anything is read or written."""

import contextlib
import dataclasses
import math
from argparse import Namespace

import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import checks
from fairseq_posattn.compat.checks import RANGES, check, check_ranges
from fairseq_posattn.training.criterions import CRITERIONS

TRAIN = {"max_update": 9, "task": "translation", "arch": "transformer_iwslt_de_en", "cpu": True}
LOSS = "label_smoothed_cross_entropy"
TRAIN |= {"criterion": LOSS, "optimizer": "adam", "max_tokens": 100}
TRAIN |= {"best_checkpoint_metric": "loss", "decoder_attention_heads": 2}
CLASSIFY = TRAIN | {"arch": "mpsan_classifier", "task": "sentence_prediction"}
CLASSIFY |= {"criterion": "sentence_classification", "decoder_attention_heads": None}
STOCK = CLASSIFY | {"criterion": "sentence_prediction"}
PAIRS = "sentence_pair_prediction"
TAG = TRAIN | {"arch": "posattn_tagger", "task": "sequence_tagging"}
TAG |= {"criterion": "sequence_tagging", "decoder_attention_heads": None}
GENERATE = {"path": "x.pt", "beam": 4, "nbest": 1, "task": "translation", "print_alignment": "hard"}
INTERACT = GENERATE | {"buffer_size": 1}
HIGHEST, BLEU = {"maximize_best_checkpoint_metric": True}, {"eval_bleu": True}
OURS = {"arch": "posattn_transformer"}
SOURCES = {"encoder": "mtsa", "mtsa_scores": "source2token"}
SOURCES |= {"mtsa_source": "key", "mtsa_source_layers": 2}
BETAS = ("0.9", "(0.9, 1.5)", "(-0.5, 0.98)", "(0.9 0.98)", "0.9,x")


def metric(name, **others):
    return {"best_checkpoint_metric": name, **others}


@pytest.mark.parametrize(
    "settings, changed",
    [
        (TRAIN, {}),
        (TRAIN, {"decoder_embed_dim": 4}),
        (TRAIN | OURS, {"task": "translation_multi_simple_epoch"}),
        (TRAIN | OURS, {"task": "denoising"}),
        (STOCK, {"task": "denoising", "permute_sentences": 1, "bpe": "gpt2"}),
        (STOCK, {"task": "multilingual_denoising", "permute_sentences": 1.0, "permute": 0.0}),
        (TRAIN, {"encoder_layers": "[(512, 3)] * 20", "retain_dropout": True, "lr": []}),
        (TRAIN, {"attention_impl": "sdpa"}),
        (TRAIN, {"quant_noise_pq": 0.1, "bf16": True}),
        (TRAIN, {"adaptive_softmax_cutoff": "10000,50000"}),  # a default of fairseq's LSTMs
        (TRAIN, BLEU | {"eval_bleu_remove_bpe": "wordpiece", "eval_bleu_detok": "space"}),
        (TRAIN, {"adam_betas": "(0.9, 0.98)"}),
        (TRAIN, {"adam_betas": "0.9,0.98"}),
        (TRAIN, {"attention_impl": "auto", "decoder_sublayers": "san,cross,ffn"}),
        (TRAIN, metric("ppl")),
        (TRAIN, metric("bleu") | BLEU | HIGHEST),
        (TRAIN, metric("accuracy", report_accuracy=True) | HIGHEST),
        (TRAIN, metric("anything", criterion="composite_loss")),
        (CLASSIFY, {"encoder_attention_heads": 3, "encoder_embed_dim": 4}),
        (CLASSIFY, {"pooling": "window_max", "word_ngrams": 1}),
        (CLASSIFY, SOURCES | {"mtsa_source": "value"}),
        (CLASSIFY, SOURCES | {"mtsa_source_layers": 0}),
        (CLASSIFY, {"task": "sentence_pair_prediction"}),
        (CLASSIFY, {"task": "sentence_pair_prediction", "criterion": "sentence_prediction"}),
        (CLASSIFY, metric("rmse", criterion="rating_regression")),
        (TAG, metric("f1") | HIGHEST),
        (GENERATE, {"replace_unk": "@@ ", "post_process": "subword_nmt"}),
        (INTERACT, {"replace_unk": "@@ ", "bpe": "subword_nmt"}),
    ],
)
def test_good_settings_pass(settings, changed):
    check(settings | changed)


@pytest.mark.parametrize("arch", ["roberta", "mpsan_classifier"])
def test_a_task_derived_from_the_plugins_takes_any_model(arch, monkeypatch):
    """Check that only the author of a task knows the models for its data."""
    monkeypatch.setitem(TASK_REGISTRY, "derived", type("Derived", (TASK_REGISTRY[PAIRS],), {}))
    check(STOCK | {"task": "derived", "arch": arch})


def test_processes_of_torchrun_do_not_train_alone(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    check(TRAIN | {"distributed_world_size": 2})
    with pytest.raises(UsageError, match="^WORLD_SIZE=2: each process of torchrun would train"):
        check(TRAIN | {"distributed_world_size": 1})
    monkeypatch.setenv("WORLD_SIZE", "1")
    check(TRAIN | {"distributed_world_size": 1})


@pytest.mark.parametrize(
    "settings, changed, words",
    [
        (TRAIN, {"dropout": 1.5}, "--dropout 1.5: it must be from 0 to 1$"),
        (TRAIN, {"encoder_layerdrop": math.nan}, "--encoder-layerdrop nan: it must be from 0"),
        (TRAIN, {"encoder_layers": 0}, "--encoder-layers 0: it must be 1 or more"),
        (TRAIN, {"lr": [0.1, -1.0]}, "--lr -1.0: it must be 0 or more"),
        (TRAIN, {"update_freq": [2, 0]}, "--update-freq 0: it must be 1 or more"),
        (TRAIN | OURS, {"dman_max_distance": -1}, "--dman-max-distance -1: it must be 0 or more"),
        (TRAIN | OURS, {"rope_base": 0.0}, "--rope-base 0.0: it must be more than 0"),
        (TRAIN, {"patience": -2}, "--patience -2: it must be 0 or more, or -1 for none"),
        (GENERATE, {"sampling_topp": 0.0}, "--sampling-topp 0.0: it must be more than 0 and up"),
        (TRAIN, {"optimizer": None}, "--optimizer is missing"),
        (TRAIN, BLEU | {"eval_bleu_remove_bpe": "bpe"}, "remove-bpe bpe: unknown; giv"),
        (TRAIN, {"eval_bleu_detok": "mose"}, "--eval-bleu-detok mose: unknown; .* are moses"),
        *((TRAIN, {"adam_betas": text}, "--adam-betas .*: two numbers") for text in BETAS),
        (TRAIN, {"adaptive_softmax_cutoff": [9]}, "it needs --criterion adaptive_loss, not label"),
        (TRAIN, {"decoder_attention_heads": 3, "decoder_embed_dim": 4}, "3: .*-embed-dim 4"),
        (TRAIN, {"encoder_attention_heads": 3, "encoder_embed_dim": 4}, "3: .*-embed-dim 4"),
        (CLASSIFY, {"pooling": "window_max", "word_ngrams": 2}, "--word-ngrams 2: --pooling"),
        *((named, SOURCES, "--mtsa-source key: .* has no keys; give") for named in (CLASSIFY, TAG)),
        (TRAIN, {"quant_noise_pq": 0.1}, "--quant-noise-pq 0.1: only --fp16 and --bf16"),
        (TRAIN, {"fp16": True}, r"--fp16: .* \(in YAML: common.fp16=false"),
        (TRAIN, {"amp": True}, "--amp: .* common.amp=false"),
        (TRAIN, {"keep_interval_updates_pattern": 0}, "-pattern 0: it must be 1 or more, or -1"),
        (TRAIN, {"write_checkpoints_asynchronously": True}, "-asynchronously: it needs .* iopath"),
        (TRAIN | OURS, {"attention_impl": "sdpa"}, "sdpa: .* give auto"),
        (TRAIN | OURS, {"criterion": f"{LOSS}_with_alignment"}, f"reads attention .*give {LOSS}$"),
        (TRAIN, {"arch": None}, "--arch is missing: in a YAML file it is model's _name"),
        (TRAIN, {"optimizer": "adm"}, "--optimizer adm: unknown; of [0-9]+ the nearest are adam"),
        (CLASSIFY, {"classification_head_name": "a"}, "add 'regression_target: bool = False' to"),
        (CLASSIFY, {"task": "translation"}, "classifier: it needs --task sentence_prediction or"),
        (TAG, {"task": "translation"}, "--arch posattn_tagger: it needs --task sequence_tagging"),
        (TAG, {"arch": "roberta"}, "roberta: it is not for .*sequence_tagging; give .*tagger"),
        (TAG, {"criterion": "cross_entropy"}, "entropy: it is not .*; give sequence_tagging$"),
        (CLASSIFY, {"task": PAIRS, "arch": "roberta"}, f"it is not for --task {PAIRS}; give bi_bl"),
        *(
            (TRAIN | OURS, {"task": task}, "--arch .*: it needs --task translation or")
            for task in ("sentence_prediction", "multilingual_translation", "translation_lev")
        ),
        (STOCK, {"task": "denoising", "permute": 0.1}, "--permute: fairseq never reads it"),
        (STOCK, {"task": "denoising", "permute_sentences": 1}, "found with --bpe gpt2 alone"),
        (TRAIN, {"arch": "cmlm_transformer_wmt_en_de"}, "it needs --task translation_lev, not tr"),
        (TRAIN, {"criterion": "news_recommendation"}, "needs --task news_recommendation, not tra"),
        (TRAIN, {"criterion": "relatedness"}, "needs --task sentence_pair_prediction, not tra"),
        (CLASSIFY, {"criterion": "relatedness"}, "needs --task sentence_pair_prediction, not s"),
        (TRAIN, metric("f1"), "f1: with --criterion label_smoothed_cross_entropy it is one of los"),
        (TRAIN, metric("bleu"), "bleu: give --eval-bleu, too"),
        (TRAIN, metric("accuracy"), "accuracy: give --report-accuracy, too"),
        (STOCK, metric("f1") | HIGHEST, "f1: give --report-acc-and-f1, too"),
        (TRAIN, metric("loss") | HIGHEST, "loss: the lower, the better: leave out --maximize"),
        (CLASSIFY, metric("acuracy"), "acuracy: .* it is one of loss, accuracy, macro_f1$"),
        (CLASSIFY, metric("accuracy"), "higher, the better: give --maximize-best-checkpoint-me"),
        (GENERATE, {"path": None}, "--path is missing"),
        (GENERATE, {"nbest": 5}, "--nbest 5: a beam of 4"),
        (GENERATE, {"replace_unk": "@@ ", "print_alignment": None}, "it needs --print-alignment"),
        (GENERATE, {"replace_unk": "@@ ", "bpe": "subword_nmt"}, "--replace-unk: --bpe, .* join"),
        (INTERACT, {"replace_unk": "@@ ", "post_process": "x"}, "--post-process join the subwords"),
        (GENERATE, {"post_process": "bpe"}, "--post-process bpe: unknown; give subword_nmt"),
    ],
)
def test_a_mistake_is_one_line(settings, changed, words):
    with pytest.raises(UsageError, match=words):
        check(settings | changed)


def test_kernels_without_a_gpu_are_refused_before_training(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(
        UsageError, match=r"^--attention-impl triton: it needs a GPU, not cpu; give"
    ):
        check(TRAIN | OURS | {"attention_impl": "triton", "cpu": True})


GRAPHS = TRAIN | OURS | {"cuda_graphs": True, "cpu": False}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cpu": True}, "there is no GPU to train on; leave it out"),
        ({"distributed_world_size": 4}, "one GPU, not for --distributed-world-size 4"),
        ({"criterion": "adaptive_loss"}, "needs --criterion cross_entropy or label_smo"),
        ({"report_accuracy": True}, "cannot be used with --report-accuracy; leave one of them"),
        ({"encoder_layerdrop": 0.1}, "cannot be used with --encoder-layerdrop"),
        ({"offload_activations": True}, "cannot be used with --offload-activations"),
    ],
)
def test_what_cuda_graphs_cannot_record_is_refused_in_one_line(changed, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check(GRAPHS)
    with pytest.raises(UsageError, match=f"^--cuda-graphs: .*{words}"):
        check(GRAPHS | changed)


def test_no_default_of_fairseq_or_the_plugin_is_out_of_range():
    configs = [field.default for field in dataclasses.fields(FairseqConfig)]
    registries = [MODEL_DATACLASS_REGISTRY, TASK_DATACLASS_REGISTRY]
    registries += [registry["dataclass_registry"] for registry in REGISTRIES.values()]
    configs += [config for registry in registries for config in registry.values()]
    checked = set()
    for config in filter(dataclasses.is_dataclass, configs):
        for field in dataclasses.fields(config):
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            check_ranges({field.name: default})
            checked.add(field.name)
    assert {"dropout", "encoder_layers", "lr", "beam", "label_smoothing"} <= checked
    for configure in ARCH_CONFIG_REGISTRY.values():
        settings = Namespace()
        with contextlib.suppress(AttributeError):  # some need a flag without a default
            configure(settings)
        check_ranges(vars(settings))
    names = [name for _, patterns in RANGES.values() for name in patterns.split()]
    assert len(names) == len(set(names))


# What a criterion may have counted in a batch.
LOGGED = {
    **dict.fromkeys(("loss", "nll_loss", "alignment_loss"), 3.0),
    **dict.fromkeys(("mha_reg_loss", "ffn_reg_loss", "n_correct", "ncorrect"), 3.0),
    **{"ntokens": 7, "nsentences": 4, "sample_size": 4, "total": 7, "pred": [1, 0], "targ": [1, 0]},
    **dict.fromkeys(("report_mcc", "report_acc_and_f1", "report_pearson_and_spearman"), True),
    **{"class_counts": torch.ones(3, 2), "scores": torch.ones(3, 4), "error_sums": torch.ones(3)},
    **{"words_right": torch.ones(2), "arguments": torch.ones(5), "rankings": torch.ones(6)},
}


@pytest.mark.parametrize("name", [*checks.METRICS, *CRITERIONS])
def test_criterions_log_the_listed_metrics(name):
    with metrics.aggregate(new_root=True) as logged:
        CRITERION_REGISTRY[name].reduce_metrics([LOGGED])
    assert {*checks.metrics_of(name)} - {"bleu"} <= {*logged}


@pytest.mark.parametrize("data", ["", "gone", "FOLDER:gone"])
def test_a_missing_folder_is_named_before_training(tmp_path, data):
    check(TRAIN | {"data": f"{tmp_path}:{tmp_path}"})
    check(TRAIN | {"data": "gone", "task": "dummy_mt"})
    name = "gone" if data else "the data"
    with pytest.raises(UsageError, match=f"^{name}: there is no such folder; prepare the data$"):
        check(TRAIN | {"data": data.replace("FOLDER", str(tmp_path))})
