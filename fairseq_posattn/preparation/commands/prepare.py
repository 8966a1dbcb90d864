"""``posattn prepare``: published and custom data sets of each kind, to data for training."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import add_count, end
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, check_unsplit
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import corpora, own_labels, own_pairs
from fairseq_posattn.preparation.kinds import classification, recommendation, tagging, translation
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.preparation.report import explain, shown
from fairseq_posattn.preparation.stages import check_replaced
from fairseq_posattn.preparation.vectors import add_word_options

FORCE = {"--force": "rebuild everything except completed downloads"}


@dataclass(frozen=True)
class Kind:
    """Data sets that are prepared in one way."""

    summary: str  # one line for --help
    corpora: dict[str, Any]  # the data sets by name
    preparation: Callable[[Any, Namespace], Preparation]  # of a corpus, with the parsed options
    add_options: Callable[[Any, ArgumentParser], None]  # of a corpus, to a parser


KINDS = {
    "translation": Kind(
        "Prepare translation data for fairseq-train: text, subwords, binarized data.",
        {**corpora.TRANSLATION, "own": own_pairs.TRANSLATION},
        translation.PairPreparation,
        translation.add_translation_options,
    ),
    "summarization": Kind(
        "Prepare summarization data for fairseq-train: text, subwords, binarized data.",
        {**corpora.SUMMARIZATION, "own": own_pairs.SUMMARIZATION},
        translation.PairPreparation,
        translation.add_summarization_options,
    ),
    "classification": Kind(
        "Prepare labeled sentences, pairs and documents for the task sentence_prediction.",
        {**corpora.CLASSIFICATION, "own": own_labels.CLASSIFICATION},
        classification.ClassificationPreparation,
        classification.add_options,
    ),
    "tagging": Kind(
        "Prepare sentences with semantic roles for the task sequence_tagging.",
        corpora.TAGGING,
        tagging.TaggingPreparation,
        lambda corpus, parser: add_word_options(parser),
    ),
    "recommendation": Kind(
        "Prepare click logs of news for the task news_recommendation.",
        corpora.RECOMMENDATION,
        recommendation.RecommendationPreparation,
        recommendation.add_options,
    ),
}


def prepare(
    kind: str,
    arguments: Sequence[str] | None = None,
    prog: str | None = None,
    data_bin: StrPath = "data-bin",
    explains: bool = False,
) -> int:
    """Prepare one data set of a kind, by ``arguments`` ``DATASET ...``; return the exit status.

    ``data_bin`` is the folder of data sets without ``--dest``. ``explains`` prints fairseq-train's
    command, too, which takes some seconds.
    """
    entry = KINDS[kind]
    parser = _make_parser(entry, prog, Path(data_bin))
    options = parser.parse_args(arguments)
    options.jobs = min(options.jobs, _cores())
    if options.dest is None:
        options.dest = Path(data_bin) / options.dataset

    def run() -> None:
        corpus = entry.corpora[options.dataset]
        if options.like:
            template = options.template = Template(options.like)
            kept = corpus.kept(template)
            # Parsed again: options at the model's values differ from options that are not given.
            again = _make_parser(entry, prog, Path(data_bin), kept).parse_args(arguments)
            template.require(kind, again, kept)
            vars(options).update(kept)
        if corpus.licensed and options.source is None:
            raise UsageError(f"{corpus.name} cannot be downloaded: --source takes {corpus.source}")
        corpus = replace(corpus, files=_training_files(options), **corpus.changes(options))
        _check_dest(options)
        check_replaced(options.dest, corpus, vars(options).values(), options.force)
        try:
            train = entry.preparation(corpus, options).prepare()
        except KeyboardInterrupt:
            say(f"{parser.prog.removesuffix('.py')}: interrupted; rerun the same command to resume")
            raise
        if explains:
            explain(train)

    return end(parser.prog, run, unnamed=options.dest)


def _training_files(options: Namespace) -> tuple[str, ...]:
    """Return the training files of a custom corpus, relative to the destination."""
    files = getattr(options, "train", None) or [getattr(options, "file", None)]
    dest = os.path.realpath(options.dest)
    return tuple(os.path.relpath(os.path.realpath(file), dest) for file in files if file)


def _check_dest(options: Namespace) -> None:
    """Raise :exc:`UsageError` if fairseq cannot use the destination, or an input contains it."""
    dest = options.dest
    check_unsplit(dest, "--dest", ",:")
    inputs = {"--source": options.source, "--like": options.template and options.template.folder}
    for flag, path in inputs.items():
        if path and Path(os.path.realpath(dest)).is_relative_to(os.path.realpath(path)):
            raise UsageError(f"--dest {dest}: lies in {flag} {path}; choose another folder")


def _make_parser(
    kind: Kind, prog: str | None, data_bin: Path, defaults: Mapping[str, Any] = {}
) -> ArgumentParser:
    parser = ArgumentParser(
        prog=prog,
        description=kind.summary,
        epilog="'%(prog)s DATASET --help' lists the options. Rerun the same command to resume; "
        "finished stages are not repeated.",
    )
    commands = parser.add_subparsers(dest="dataset", metavar="DATASET", required=True)
    for name, corpus in kind.corpora.items():
        command = commands.add_parser(name, help=corpus.summary, description=corpus.summary)
        command.set_defaults(source=None, like=None, template=None)
        if corpus.source is not None:
            source = corpus.source + ("" if corpus.licensed else " (default: download it)")
            command.add_argument("--source", type=Path, metavar="PATH", help=source)
        default = shown(data_bin / name).replace("%", "%%")
        dest = f"output folder; its text/ holds readable text (default: {default})"
        command.add_argument("--dest", type=Path, metavar="FOLDER", help=dest)
        add_count(command, "--jobs", _cores(), "processes, at most the number of cores")
        limit = f"use the first N {corpus.unit} of each split, for a quick look"
        add_count(command, "--limit", None, limit)
        for flag, about in (FORCE | corpus.flags).items():
            command.add_argument(flag, action="store_true", help=about)
        kind.add_options(corpus, command)
        command.set_defaults(**defaults)
    return parser


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def main(arguments: Sequence[str] | None = None, prog: str = "posattn prepare") -> int:
    parser = ArgumentParser(
        prog=prog,
        description="Prepare a published data set, or your own data, for training.",
        epilog=f"'{prog} KIND --help' lists the data sets of a kind.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, kind in KINDS.items():
        kinds.add_parser(name, add_help=False, help=f"{kind.summary} {', '.join(kind.corpora)}")
    options, rest = parser.parse_known_args(arguments)
    return prepare(options.kind, rest, f"{prog} {options.kind}", explains=True)
