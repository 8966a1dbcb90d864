"""Sequence-level distillation (Kim and Rush, 2016): a teacher's translations become targets."""

import math
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import Progress, map_chunks, say
from fairseq_posattn.inference.options import import_user_dir
from fairseq_posattn.preparation.round_trip import tokenizer_for
from fairseq_posattn.text.lines import file_lines

if TYPE_CHECKING:  # a command's --help needs no PyTorch
    from sacrebleu.metrics.bleu import BLEU

    from fairseq_posattn.inference.translation import Translation, Translator

PART = 500  # lines in a file, so that a killed run goes on and machines share the work

Pair = tuple[str, str]  # source and target in subwords


class Settings(NamedTuple):
    """A teacher and its search; ``best_of_beam`` is sequence-level interpolation (section 3.3)."""

    teachers: Sequence[str]  # checkpoints of an ensemble
    data: str  # prepared folder with their dictionaries
    languages: Sequence[str]  # source and target of it
    best_of_beam: bool
    processes: int  # of this machine, which share its cores
    user_dir: str | None  # imported by each process
    options: dict[str, Any]  # further arguments of translation.load
    batch: tuple[int, int]  # lines, and subwords with padding, in a batch at most


class Teacher:
    """A function from a part to its number, new targets and how many are the original ones."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.translator: Translator | None = None

    def __call__(self, part: tuple[int, list[Pair]]) -> tuple[int, list[str], int]:
        translator = self.translator = self.translator or self._load()
        number, pairs = part
        lines = translator.encode([source for source, _ in pairs])
        translations = translator.translate_all(lines, *self.settings.batch)
        targets, kept = [], 0
        for (_, target), line, translation in zip(pairs, lines, translations, strict=True):
            is_kept = line.cut or not translation.hypotheses or translation.is_longest
            longest = translator.longest_output(len(line.tokens))
            targets.append(target if is_kept else self._choose(translation, target, longest))
            kept += is_kept
        return number, targets, kept

    def _load(self) -> "Translator":
        import torch

        from fairseq_posattn.inference import translation

        settings, options = self.settings, dict(self.settings.options)
        name = multiprocessing.current_process().name.rpartition("-")[2]
        if settings.processes > 1 and not options["device"] and torch.cuda.is_available():
            options["device"] = f"cuda:{int(name) % torch.cuda.device_count()}"
        if settings.processes > 1:
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // settings.processes))
        if settings.user_dir:
            import_user_dir(settings.user_dir)
        options["nbest"] = options["beam"] if settings.best_of_beam else 1
        translator = translation.load(settings.teachers, settings.data, unkpen=math.inf, **options)
        if translator.languages != tuple(settings.languages):
            pair, wanted = map("-".join, (translator.languages, settings.languages))
            differ = f"is a model of {pair}, --data of {wanted}"
            raise UsageError(f"{translator.path}: {differ}; name data of its languages")
        translator.lines.split = str.strip  # the text is in subwords
        return translator

    def _choose(self, translation: "Translation", target: str, longest: int) -> str:
        best, *others = translation.hypotheses
        if others and self.translator:
            reference = [self.translator.lines.plain(target)]
            score = _bleu(tokenizer_for(reference, self.settings.languages[1])).sentence_score
            whole = (h for h in others if len(h.pieces.split()) < longest)  # others may be cut
            best = max((best, *whole), key=lambda h: float(score(h.text, reference).score))
        return best.pieces


@cache
def _bleu(tokenizer: str) -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU  # slow to import

    return BLEU(tokenize=tokenizer, effective_order=True)


class Parts:
    """The translated parts in a folder of a training set, ``files`` of ``count`` lines."""

    def __init__(self, folder: Path, files: Sequence[Path], count: int) -> None:
        self.folder, self.files, self.count = folder, files, count
        self.number = -(-count // PART)

    def path(self, part: int) -> Path:
        return self.folder / f"{part:06}"

    def missing(self, shard: int = 0, shards: int = 1) -> list[int]:
        """Return the numbers of the parts of a shard that are not translated."""
        return [n for n in range(shard, self.number, shards) if not self.path(n).exists()]

    def translate(self, settings: Settings, shard: int, shards: int) -> None:
        """Translate the missing parts of a shard, the numbers ``shard``, ``shard + shards``..."""
        wanted = set(self.missing(shard, shards))
        sizes = {n: min(PART, self.count - n * PART) for n in range(shard, self.number, shards)}
        done = sum(size for n, size in sizes.items() if n not in wanted)
        chunks = ([part] for part in self._read() if part[0] in wanted)
        kept = 0
        translated = map_chunks(Teacher(settings), chunks, settings.processes, "spawn")
        with Progress("translating", "lines", sum(sizes.values()), done) as progress:
            for [(part, targets, count)] in translated:
                self.folder.mkdir(parents=True, exist_ok=True)
                with writing(self.path(part)) as file:
                    file.writelines(f"{target}\n" for target in targets)
                progress.add(len(targets))
                kept += count
        if kept:
            why = "the teacher cannot read them whole, or its translation has the maximum length"
            now = sum(sizes[n] for n in wanted)
            counts = f"{kept:,} of {now:,} translated now"
            say(f"lines that keep their target: {counts}; {why} (--max-len-a, --max-len-b)")

    def _read(self) -> Iterator[tuple[int, list[Pair]]]:
        sides = (file_lines(path) for path in self.files)
        pairs = zip(*sides, strict=True)
        for part in range(self.number):
            yield part, list(islice(pairs, PART))

    def targets(self) -> Iterator[str]:
        """Yield all new targets, in order."""
        for part in range(self.number):
            yield from file_lines(self.path(part))
