"""Settings of ``posattn train``: flags of fairseq-train by data and size, see sizes.yaml."""

import filecmp
import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import read_table
from fairseq_posattn.preparation.corpus import POSITIONS
from fairseq_posattn.text import languages, manifest
from fairseq_posattn.text.vocabulary import VECTORS

SIZES = ("tiny", "small", "base", "big")
LONG = 100  # words; longer texts take CSPAN, whose attention needs less memory than MPSAN's
# Greedy search with short limits: untrained models end no sentence.
VALIDATION = {"beam": 1, "max_len_a": 2, "max_len_b": 10}
FEWEST_UPDATES = 20  # between two validations


class Size(NamedTuple):
    """A named architecture, the tokens of an update, and flags of model and optimizer."""

    arch: str
    tokens: int
    flags: str


def _read_sizes() -> Any:
    """Return the sizes by kind of data."""
    kinds = read_table(Path(__file__).with_name("sizes.yaml"))
    del kinds["shared"]
    for sizes in kinds.values():
        for name, size in sizes.items():
            sizes[name] = Size(size["arch"], size["tokens"], " ".join(size["flags"]))
    return kinds


KINDS: dict[str, dict[str, Size]] = _read_sizes()


class Prepared:
    """A folder of ``posattn prepare``, and ``others`` with its dictionaries to train on."""

    def __init__(self, folder: Path, *others: Path) -> None:
        described = manifest.read(folder)
        if described is None and (folder / "fold0" / manifest.NAME).exists():
            raise UsageError(f"{folder}: has ten folds; name one of them, such as {folder}/fold0")
        if described is None:
            raise UsageError(f"{folder}: has no {manifest.NAME}; make it with 'posattn prepare'")
        if described.metric is None:
            raise UsageError(f"{folder}/{manifest.NAME}: lacks the metric; {manifest.FIX}")
        self.folder, self.manifest, self.kind = folder, described, described.kind
        self.folders = (folder, *others)
        for other in others:
            self._require_equal(other)
        # validation computes no ROUGE
        self.metric = "loss" if self.kind == "summarization" else described.metric

    def _require_equal(self, other: Path) -> None:
        """Raise UsageError unless a folder has the dictionaries of the first, which are read."""
        first = self.folder
        if self.manifest.task != "translation":
            raise UsageError(f"{first}:{other}: fairseq reads one folder of {self.kind}; name one")
        for side in self.manifest.languages:
            name = f"dict.{side}.txt"
            if not (other / name).exists() or not filecmp.cmp(first / name, other / name, False):
                fix = f"{manifest.LIKE} {shlex.quote(str(first))}"
                raise UsageError(f"{other}: has not the {name} of {first}; {fix}")

    def size(self, name: str, change: Callable[[Size], Size] = lambda size: size) -> Size:
        """Return the settings of a size, changed; for long texts an encoder that takes them."""
        sizes = KINDS[self.kind]
        if name not in sizes:
            raise UsageError(f"--size {name}: {self.kind} has {', '.join(sizes)}; choose one")
        size = sizes[name]
        if size.arch == "mpsan_classifier" and (self.manifest.longest_text or 0) > LONG:
            size = size._replace(arch="cspan_classifier")
        size = change(size)
        return size._replace(flags=self._for_small(size))

    def _for_small(self, size: Size) -> str:
        """Return a size's flags, which count several epochs as one if each has few updates.

        Else training would stop for want of progress before the learning rate has warmed up.
        """
        words = shlex.split(size.flags)
        warmup, patience, batch, epochs = (
            int(value_of(words, flag) or 0)
            for flag in ("--warmup-updates", "--patience", "--batch-size", "--max-epoch")
        )
        if size.tokens:  # of 2 bytes each, or of 4 in vocabularies that small corpora do not have
            # Each folder is an epoch, in turn.
            files = (folder.rglob("train*.bin") for folder in self.folders)
            tokens = [max((path.stat().st_size / 2 for path in part), default=0) for part in files]
            updates = sum(tokens) / len(tokens) / size.tokens
        else:
            updates = self.manifest.examples.get("train", 0) / batch
        number = math.ceil(max(FEWEST_UPDATES, warmup / patience) / updates) if updates else 1
        if number <= 1:
            return size.flags
        flags = size.flags.replace(f"--max-epoch {epochs}", f"--max-epoch {number * epochs}")
        return f"{flags} --validate-interval {number} --save-interval {number}"

    def flags(self, metric: str) -> list[str]:
        """Return the flags of task and data; ``metric`` selects the best checkpoint."""
        task, features = self.manifest.task, self.manifest.features
        flags = ["--task", task, "--best-checkpoint-metric", metric]
        if metric not in manifest.LOWER_IS_BETTER:
            flags.append("--maximize-best-checkpoint-metric")
        if task == "translation":
            return flags + self._pairs()
        flags += ["--criterion", str(self.manifest.criterion)]
        if classes := self.manifest.classes:
            flags += ["--num-classes", str(classes)]
        if (self.manifest.longest_text or 0) >= POSITIONS - 1:  # GPT reads one token less
            flags += ["--max-positions", str(POSITIONS), "--shorten-method", "truncate"]
        if features:
            paths = [self.folder / VECTORS, self.folder.parent / VECTORS]  # of folds
            path = str(paths[0] if paths[0].exists() else paths[1])
            flags += ["--encoder-embed-path", path, "--encoder-embed-dim", str(features)]
        return flags

    def _pairs(self) -> list[str]:
        shared = "all-embeddings" if self.manifest.joined else "decoder-input-output-embed"
        flags = [f"--share-{shared}", "--skip-invalid-size-inputs-valid-test"]
        if self.kind == "summarization":
            most = str((self.manifest.longest or POSITIONS - 1) + 1)  # with the end symbol
            return [*flags, "--max-source-positions", most, "--max-target-positions", most]
        subwords = self.manifest.subwords
        is_moses = subwords == "subword_nmt"
        flags += ["--eval-bleu", "--eval-bleu-args", json.dumps(VALIDATION)]
        flags += ["--eval-bleu-detok", "moses" if is_moses else "space"]
        if is_moses:
            language = json.dumps({"target_lang": languages.code_of(self.manifest.languages[1])})
            flags += ["--eval-bleu-detok-args", language]
        return [*flags, "--eval-bleu-remove-bpe", subwords] if subwords else flags
