"""Settings of ``posattn train``: flags of fairseq-train by kind of data and size of the model.

Sizes beyond ``tiny`` have the published sizes of their architectures. Translation trains as fairseq
documents for these sizes (IWSLT'14; Ott et al., 2018), summarization as Fan et al. (2021), tagging
as Tan et al. (2018), recommendation and classifiers as DA-Transformer (section 4.1). ``tiny`` is
that of the recipes for a CPU: it trains on 30,000 sentences within an hour on two cores.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora import CLASSIFICATION
from fairseq_posattn.preparation.corpus import SIDES
from fairseq_posattn.preparation.custom import labelled
from fairseq_posattn.preparation.labelled_text import read_summary
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest

SIZES = ("tiny", "small", "base", "big")
LONG = 100  # words; longer texts take CSPAN, whose attention needs less memory than MPSAN's
POSITIONS = 512  # default maximum length of fairseq's task
LOWER_IS_BETTER = ("loss", "rmse", "mae", "mse")
TASKS = {
    "sentence_prediction": "classification",
    "sentence_pair_prediction": "classification",
    "sequence_tagging": "tagging",
    "news_recommendation": "recommendation",
}


@dataclass(frozen=True)
class Size:
    """A model and its training.

    Attributes:
        arch: named architecture.
        flags: of the model and the optimizer.
        tokens: tokens of an update; 0: ``sentences`` are given instead.
        sentences: sentences of an update.
    """

    arch: str
    flags: str
    tokens: int = 0
    sentences: int = 0


def _both_sides(layers: int, width: int, feed_forward: int, heads: int) -> str:
    return " ".join(
        f"--{side}-layers {layers} --{side}-embed-dim {width} --{side}-ffn-embed-dim {feed_forward}"
        f" --{side}-attention-heads {heads} --{side}-normalize-before"
        for side in ("encoder", "decoder")
    )


_PAIRS = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam"
    " --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt"
)
_TINY_PAIRS = (
    f"{_both_sides(2, 128, 256, 4)} {_PAIRS} --lr 4e-3 --warmup-updates 400 --weight-decay 1e-4"
    " --dropout 0.1 --attention-dropout 0 --activation-dropout 0 --max-epoch 20 --patience 5"
)
_LONG_PAIRS = f"{_PAIRS} --warmup-updates 4000 --patience 10"
_SENTENCES = "--optimizer adam --lr 1e-3 --lr-scheduler fixed --max-epoch 15 --patience 5"
_TINY_ENCODER = (
    "--encoder-embed-dim 100 --encoder-hidden-dim 0 --encoder-attention-heads 2"
    " --encoder-ffn-embed-dim 200 --head-dim 50 --optimizer adam --lr 3e-3 --lr-scheduler fixed"
    " --clip-norm 5 --max-epoch 15 --patience 5"
)
_TAGGING = "--label-smoothing 0.1 --max-epoch 50 --patience 10 --clip-norm 1"

KINDS: dict[str, dict[str, Size]] = {
    "translation": {
        "tiny": Size("dman_iwslt_de_en", _TINY_PAIRS, tokens=1024),
        "small": Size(
            "dman_iwslt_de_en",
            f"{_LONG_PAIRS} --lr 5e-4 --dropout 0.3 --weight-decay 1e-4 --max-update 50000",
            tokens=4096,
        ),
        "base": Size(
            "dman_wmt_en_de",
            f"{_LONG_PAIRS} --lr 7e-4 --dropout 0.1 --max-update 100000",
            tokens=32768,
        ),
        "big": Size(
            "dman_wmt_en_de_big",
            f"{_LONG_PAIRS} --lr 5e-4 --dropout 0.3 --max-update 100000",
            tokens=32768,
        ),
    },
    "summarization": {
        "tiny": Size("dman_summarization", _TINY_PAIRS, tokens=2048),
        "base": Size(
            "dman_summarization",
            f"{_PAIRS} --lr 5e-4 --warmup-updates 4000 --weight-decay 0.01 --clip-norm 0.1"
            " --dropout 0.1 --max-update 50000 --patience 10",
            tokens=32768,
        ),
    },
    "classification": {
        "tiny": Size("mpsan_classifier", _TINY_ENCODER, sentences=64),
        "small": Size("mpsan_classifier", _SENTENCES, sentences=64),
        "base": Size("cspan_classifier", f"{_SENTENCES} --l2 1e-4 --l2-all", sentences=64),
        "big": Size("cspan_big_classifier", f"{_SENTENCES} --l2 1e-4 --l2-all", sentences=64),
    },
    "tagging": {
        "tiny": Size(
            "mtsa_tagger",
            "--encoder-embed-dim 100 --predicate-embed-dim 50 --encoder-layers 4"
            " --encoder-attention-heads 4 --encoder-ffn-embed-dim 400 --encoder-hidden-dim 200"
            f" --optimizer adam --lr 1e-3 --lr-scheduler fixed --warmup-updates 200 {_TAGGING}",
            tokens=2048,
        ),
        "base": Size(
            "mtsa_tagger",
            "--optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-6 --lr 1.0"
            f" --lr-scheduler fixed {_TAGGING}",
            tokens=4096,
        ),
    },
    "recommendation": {
        "tiny": Size(
            "da_transformer_recommender",
            "--encoder-embed-dim 100 --encoder-hidden-dim 64 --encoder-attention-heads 4"
            " --optimizer adam --lr 1e-3 --lr-scheduler fixed --max-epoch 5 --patience 2",
            sentences=30,
        ),
        "base": Size(
            "da_transformer_recommender",
            "--optimizer adam --lr 1e-3 --lr-scheduler fixed --max-epoch 5 --patience 2",
            sentences=30,
        ),
    },
}


@dataclass(frozen=True)
class Prepared:
    """A folder of ``posattn prepare``.

    Attributes:
        folder: that fairseq-train reads.
        manifest: its ``preparation.json``.
    """

    folder: Path
    manifest: Manifest

    @classmethod
    def read(cls, folder: Path) -> "Prepared":
        """Raise :exc:`UsageError` if it is no prepared folder."""
        described = manifest.read(folder)
        if described is not None:
            return cls(folder, described)
        if (folder / "fold0" / manifest.NAME).exists():
            raise UsageError(f"{folder}: has ten folds; name one of them, such as {folder}/fold0")
        raise UsageError(f"{folder}: has no {manifest.NAME}; make it with 'posattn prepare'")

    @property
    def kind(self) -> str:
        """Return the key of :data:`KINDS`."""
        if self.manifest.task != "translation":
            return TASKS[self.manifest.task]
        return "summarization" if self.manifest.languages == SIDES else "translation"

    @property
    def is_scored(self) -> bool:
        """Return whether custom examples have numbers instead of labels."""
        return self.manifest.corpus == "own" and (self.folder / "label/train.label").exists()

    @property
    def metric(self) -> str:
        """Return the validation metric that selects the best checkpoint."""
        if self.kind == "classification":
            corpus = CLASSIFICATION.get(self.manifest.corpus, labelled.CORPUS)
            return "rmse" if self.is_scored else corpus.metrics[0]
        others = {"translation": "bleu", "tagging": "f1", "recommendation": "auc"}
        return others.get(self.kind, "loss")

    def size(self, name: str) -> Size:
        """Return the settings of a size, for long texts with an encoder that takes them."""
        sizes = KINDS[self.kind]
        if name not in sizes:
            raise UsageError(f"--size {name}: {self.kind} has {', '.join(sizes)}; choose one")
        size = sizes[name]
        if size.arch == "mpsan_classifier" and self._longest() > LONG:
            return Size("cspan_classifier", size.flags, sentences=size.sentences)
        return size

    def flags(self) -> list[str]:
        """Return the flags of task and data."""
        flags = ["--task", self.manifest.task]
        if self.kind == "classification":
            flags += self._classification()
        elif self.manifest.task == "translation":
            flags += self._pairs()
        else:
            flags += ["--criterion", self.manifest.task]
        for path in (self.folder / "glove.txt", self.folder.parent / "glove.txt"):
            if self.kind not in ("translation", "summarization") and path.exists():
                with open(path, encoding="utf-8") as lines:
                    features = lines.readline().split()[1]
                flags += ["--encoder-embed-path", str(path), "--encoder-embed-dim", features]
                break
        flags += ["--best-checkpoint-metric", self.metric]
        if self.metric not in LOWER_IS_BETTER:
            flags.append("--maximize-best-checkpoint-metric")
        return flags

    def _pairs(self) -> list[str]:
        source, target = self.manifest.languages
        dictionaries = [self.folder / f"dict.{side}.txt" for side in (source, target)]
        first, second = (path.read_bytes() for path in dictionaries)
        shared = (
            "--share-all-embeddings" if first == second else "--share-decoder-input-output-embed"
        )
        flags = [shared, "--skip-invalid-size-inputs-valid-test"]
        if self.kind == "summarization":
            positions = str((self.manifest.longest or POSITIONS - 1) + 1)
            return [
                *flags,
                "--max-source-positions",
                positions,
                "--max-target-positions",
                positions,
            ]
        moses = self.manifest.subwords == "subword_nmt"
        flags += ["--eval-bleu", "--eval-bleu-args", json.dumps({"beam": 1, "max_len_a": 2})]
        flags += ["--eval-bleu-detok", "moses" if moses else "space"]
        if moses:
            flags += ["--eval-bleu-detok-args", json.dumps({"target_lang": target})]
        if self.manifest.subwords:
            flags += ["--eval-bleu-remove-bpe", self.manifest.subwords]
        return flags

    def _classification(self) -> list[str]:
        corpus = CLASSIFICATION.get(self.manifest.corpus, labelled.CORPUS)
        classes, criterion = corpus.num_classes, corpus.criterion
        if self.is_scored:
            classes, criterion = 1, "rating_regression"
        elif classes is None:
            classes = len((self.folder / "label/dict.txt").read_text().splitlines())
        flags = ["--num-classes", str(classes), "--criterion", criterion]
        if self._longest() >= POSITIONS:
            flags += ["--max-positions", str(POSITIONS), "--shorten-method", "truncate"]
        return flags

    def _longest(self) -> int:
        return int(read_summary(self.folder / "text")["longest"])
