"""The folder of a command's data: its task, languages and splits.

fairseq reports what is missing in the middle of its work, by the name of another file.
"""

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass

from fairseq import utils
from fairseq.data import data_utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import flag


@dataclass(frozen=True)
class Layout:
    """Patterns of file names in the folder of a task's data."""

    tasks: tuple[str, ...]
    dictionary: str
    split: str


TRANSLATION = Layout(
    ("translation", "translation_lev", "translation_from_pretrained_bart"),
    "dict.*.txt",
    "{split}.{pair}.{language}*",
)
SENTENCES = Layout(
    ("sentence_prediction", "sentence_pair_prediction"), "input0/dict.txt", "input0/{split}.*"
)
LANGUAGE_MODEL = Layout(("language_modeling",), "dict.txt", "{split}.*")
LAYOUTS = (TRANSLATION, SENTENCES, LANGUAGE_MODEL)


def check_data(settings: Mapping, subsets: tuple[str, ...]):
    """Check the folder, or the first of several, that ``data`` names.

    Args:
        subsets: those of ``train_subset``, ``valid_subset`` and ``gen_subset`` that are read.

    Raises:
        UsageError: a folder, the dictionaries, a language or a split is missing.
    """
    if not isinstance(settings.get("data"), str) or settings.get("task") == "speech_unit_modeling":
        return  # a task without data, or whose data is a file
    folders = utils.split_paths(settings["data"]) or [""]
    for folder in folders:
        if not os.path.isdir(folder) and "://" not in folder:
            raise UsageError(
                f"{folder or 'the data'}: there is no such folder; name that of the binarised data"
            )
    folder, task = folders[0], settings.get("task")
    for layout in LAYOUTS:
        if task in layout.tasks and "://" not in folder:
            _check_dictionaries(folder, task, layout)
            pair = _languages(folder, settings) if layout is TRANSLATION else ("", "")
            for subset in subsets:
                _check_splits(folder, layout, pair, subset, settings.get(subset))


def _check_dictionaries(folder, task, layout):
    if _glob(folder, layout.dictionary):
        return
    others = [
        other.tasks[0] for other in (TRANSLATION, SENTENCES) if _glob(folder, other.dictionary)
    ]
    hint = f"; it is data of --task {others[0]}" if others else ": prepare the data first"
    raise UsageError(f"{folder} is not data of --task {task}: it has no {layout.dictionary}{hint}")


def _languages(folder, settings) -> tuple[str, str]:
    """Return source and target, which fairseq infers from file names unless both are given."""
    names = ("source_lang", "target_lang")
    known = sorted(path.split(".")[-2] for path in _glob(folder, TRANSLATION.dictionary))
    for name in names:
        if settings.get(name) is not None and settings[name] not in known:
            raise UsageError(
                f"{flag(name)} {settings[name]}: {folder} has no dict.{settings[name]}.txt, only "
                f"dictionaries of {', '.join(known)}"
            )
    pair = [settings.get(name) for name in names]
    if None in pair:
        guessed = data_utils.infer_language_pair(folder)
        if None in guessed:
            raise UsageError(
                f"{folder}: its files name no pair of languages; give --source-lang and "
                f"--target-lang, of {', '.join(known)}"
            )
        for name, given, inferred in zip(names, pair, guessed, strict=True):
            if given not in (None, inferred):
                raise UsageError(
                    f"{flag(name)} {given}: alone it is ignored, and {folder} is from "
                    f"{guessed[0]} to {guessed[1]}; give both --source-lang and --target-lang"
                )
        return guessed
    return tuple(pair)


def _check_splits(folder, layout, pair, subset, named):
    """Require the files of both languages of a pair; translation needs the source only."""
    languages = pair if subset != "gen_subset" else pair[:1]
    for split in str(named or "").split(","):
        if split and not all(
            _split_files(folder, layout, pair, split, language) for language in languages
        ):
            files = _split_files(folder, layout, pair, "*", languages[-1])
            names = {os.path.basename(path).split(".")[0] for path in files}
            known = sorted(names - {"dict", "preprocess"})  # preprocess.log
            if layout is TRANSLATION and not known:
                raise UsageError(
                    f"--source-lang {pair[0]} --target-lang {pair[1]}: {folder} has no data of "
                    "this pair"
                )
            blanks = "; leave out the blanks" if split.strip() in known else ""
            raise UsageError(
                f"{flag(subset)} {split}: {folder} has no such split, only "
                f"{', '.join(known) or 'dictionaries'}{blanks}"
            )


def _split_files(folder, layout, pair, split, language):
    name = split if split == "*" else glob.escape(split)
    patterns = {
        layout.split.format(split=name, pair="-".join(languages), language=language)
        for languages in (pair, pair[::-1])
    }
    return [path for pattern in patterns for path in _glob(folder, pattern)]


def _glob(folder, pattern):
    return glob.glob(os.path.join(glob.escape(folder), pattern))
