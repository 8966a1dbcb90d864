"""Settings of ``posattn train``: flags of fairseq-train by kind of data and size of the model.

Sizes beyond ``tiny`` are the published sizes of their architectures. Translation trains as fairseq
documents for these sizes (IWSLT'14; Ott et al., 2018), summarization as Fan et al. (2021), tagging
as Tan et al. (2018), the rest as DA-Transformer (section 4.1). ``tiny`` is that of the recipes for
a CPU: it trains on 30,000 sentences in about an hour.
"""

import json
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SIDES
from fairseq_posattn.text import manifest

SIZES = ("tiny", "small", "base", "big")
LONG = 100  # words; longer texts take CSPAN, whose attention needs less memory than MPSAN's
POSITIONS = 512  # default maximum length of fairseq's task
VECTORS = "glove.txt"
# Greedy search with short limits: untrained models end no sentence.
VALIDATION = {"beam": 1, "max_len_a": 2, "max_len_b": 10}
LOWER_IS_BETTER = ("loss", "rmse")


class Size(NamedTuple):
    """A model and its training.

    Attributes:
        arch: named architecture.
        tokens: tokens of an update; 0 for a number of sentences in ``flags``.
        flags: of the model and the optimizer.
    """

    arch: str
    tokens: int
    flags: str


_BOTH_SIDES = " ".join(
    f"--{side}-layers 2 --{side}-embed-dim 128 --{side}-ffn-embed-dim 256"
    f" --{side}-attention-heads 4 --{side}-normalize-before"
    for side in ("encoder", "decoder")
)
_PAIRS = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam"
    " --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt"
)
_TINY_PAIRS = (
    f"{_BOTH_SIDES} {_PAIRS} --lr 4e-3 --warmup-updates 400 --weight-decay 1e-4 --dropout 0.1"
    " --attention-dropout 0 --activation-dropout 0 --max-epoch 20 --patience 5"
)
_LONG_PAIRS = f"{_PAIRS} --warmup-updates 4000 --patience 10 --dropout"
_ADAM = "--optimizer adam --lr-scheduler fixed --lr"
_SENTENCES = "--batch-size 64 --max-epoch 15 --patience 5"
_TINY_SENTENCES = (
    "--encoder-embed-dim 100 --encoder-hidden-dim 0 --encoder-attention-heads 2"
    f" --encoder-ffn-embed-dim 200 --head-dim 50 {_ADAM} 3e-3 {_SENTENCES} --clip-norm 5"
)
_DOCUMENTS = f"{_ADAM} 1e-3 {_SENTENCES} --l2 1e-4 --l2-all"
_TAGGING = "--label-smoothing 0.1 --max-epoch 50 --patience 10 --clip-norm 1"
_NEWS = f"{_ADAM} 1e-3 --batch-size 30 --max-epoch 5 --patience 2"

KINDS = {
    "translation": {
        "tiny": Size("dman_iwslt_de_en", 1024, _TINY_PAIRS),
        "small": Size(
            *("dman_iwslt_de_en", 4096),
            f"{_LONG_PAIRS} 0.3 --lr 5e-4 --weight-decay 1e-4 --max-update 50000",
        ),
        "base": Size("dman_wmt_en_de", 32768, f"{_LONG_PAIRS} 0.1 --lr 7e-4 --max-update 100000"),
        "big": Size(
            "dman_wmt_en_de_big", 32768, f"{_LONG_PAIRS} 0.3 --lr 5e-4 --max-update 100000"
        ),
    },
    "summarization": {
        "tiny": Size("dman_summarization", 2048, _TINY_PAIRS),
        "base": Size(
            *("dman_summarization", 32768),
            f"{_LONG_PAIRS} 0.1 --lr 5e-4 --weight-decay 0.01 --clip-norm 0.1 --max-update 50000",
        ),
    },
    "classification": {
        "tiny": Size("mpsan_classifier", 0, _TINY_SENTENCES),
        "small": Size("mpsan_classifier", 0, f"{_ADAM} 1e-3 {_SENTENCES}"),
        "base": Size("cspan_classifier", 0, _DOCUMENTS),
        "big": Size("cspan_big_classifier", 0, _DOCUMENTS),
    },
    "tagging": {
        "tiny": Size(
            *("mtsa_tagger", 2048),
            "--encoder-embed-dim 100 --predicate-embed-dim 50 --encoder-layers 4"
            " --encoder-attention-heads 4 --encoder-ffn-embed-dim 400 --encoder-hidden-dim 200"
            f" {_TAGGING} {_ADAM} 1e-3 --warmup-updates 200",
        ),
        "base": Size(
            *("mtsa_tagger", 4096),
            f"{_TAGGING} --optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-6"
            " --lr-scheduler fixed --lr 1.0",
        ),
    },
    "recommendation": {
        "tiny": Size(
            *("da_transformer_recommender", 0),
            f"--encoder-embed-dim 100 --encoder-hidden-dim 64 --encoder-attention-heads 4 {_NEWS}",
        ),
        "base": Size("da_transformer_recommender", 0, _NEWS),
    },
}
KIND_OF_TASK = {
    "sentence_prediction": "classification",
    "sentence_pair_prediction": "classification",
    "sequence_tagging": "tagging",
    "news_recommendation": "recommendation",
}


class Prepared:
    """A folder of ``posattn prepare``.

    Attributes:
        folder: that fairseq-train reads.
        manifest: its ``preparation.json``.
        kind: key of :data:`KINDS`.
        metric: validation metric that selects the best checkpoint.

    Raises:
        UsageError: it is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        described = manifest.read(folder)
        if described is None and (folder / "fold0" / manifest.NAME).exists():
            raise UsageError(f"{folder}: has ten folds; name one of them, such as {folder}/fold0")
        if described is None:
            raise UsageError(f"{folder}: has no {manifest.NAME}; make it with 'posattn prepare'")
        if described.metric is None:
            raise UsageError(f"{folder}/{manifest.NAME}: lacks the metric; {manifest.FIX}")
        self.folder, self.manifest = folder, described
        is_summary = described.languages == SIDES
        pairs = "summarization" if is_summary else "translation"
        self.kind = KIND_OF_TASK.get(described.task, pairs)
        self.metric = "loss" if is_summary else described.metric  # validation computes no ROUGE

    def size(self, name: str) -> Size:
        """Return the settings of a size, for long texts with an encoder that takes them."""
        sizes = KINDS[self.kind]
        if name not in sizes:
            raise UsageError(f"--size {name}: {self.kind} has {', '.join(sizes)}; choose one")
        size = sizes[name]
        if size.arch == "mpsan_classifier" and (self.manifest.longest_text or 0) > LONG:
            return size._replace(arch="cspan_classifier")
        return size

    def flags(self) -> list[str]:
        """Return the flags of task and data."""
        task, features = self.manifest.task, self.manifest.features
        flags = ["--task", task, "--best-checkpoint-metric", self.metric]
        if self.metric not in LOWER_IS_BETTER:
            flags.append("--maximize-best-checkpoint-metric")
        if task == "translation":
            return flags + self._pairs()
        flags += ["--criterion", str(self.manifest.criterion)]
        if classes := self.manifest.classes:
            flags += ["--num-classes", str(classes)]
        if (self.manifest.longest_text or 0) >= POSITIONS:
            flags += ["--max-positions", str(POSITIONS), "--shorten-method", "truncate"]
        if features:
            folder = self.folder
            folder = folder if (folder / VECTORS).exists() else folder.parent  # of folds
            flags += ["--encoder-embed-path", str(folder / VECTORS)]
            flags += ["--encoder-embed-dim", str(features)]
        return flags

    def _pairs(self) -> list[str]:
        shared = "all-embeddings" if self.manifest.joined else "decoder-input-output-embed"
        flags = [f"--share-{shared}", "--skip-invalid-size-inputs-valid-test"]
        if self.kind == "summarization":
            most = str((self.manifest.longest or POSITIONS - 1) + 1)  # with the end symbol
            return [*flags, "--max-source-positions", most, "--max-target-positions", most]
        flags += ["--eval-bleu", "--eval-bleu-args", json.dumps(VALIDATION)]
        if self.manifest.subwords == "subword_nmt":
            language = json.dumps({"target_lang": self.manifest.languages[1]})
            flags += ["--eval-bleu-detok", "moses", "--eval-bleu-detok-args", language]
        else:
            flags += ["--eval-bleu-detok", "space"]
        subwords = self.manifest.subwords
        return [*flags, "--eval-bleu-remove-bpe", subwords] if subwords else flags
