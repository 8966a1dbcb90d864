"""From a published data set to what fairseq's sentence_prediction reads, the same way for all.

A destination holds ``input0``, for pairs ``input1``, and ``label``: the binarised splits, each with
a dictionary, that of the inputs shared. Where examples have real numbers, ``label/{split}.label``
holds them for ``--regression-target``. The words are in ``text/{split}.{input0,input1,label}``,
vectors for them in ``glove.txt``. Of a cross-validated data set, ``fold0`` to ``fold9`` hold all
that but the vectors, which are beside them.
"""

import shlex
import shutil
from collections import Counter
from functools import partial
from hashlib import sha256
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.binarise import binarise_files
from fairseq_posattn.preparation.command import next_dataset
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.counts import report_counts
from fairseq_posattn.preparation.custom import training
from fairseq_posattn.preparation.custom.report import report_labels, report_splits
from fairseq_posattn.preparation.labelled_text import (
    WHOLE,
    read_summary,
    write_divided,
    write_splits,
)
from fairseq_posattn.preparation.pairs import text_lines
from fairseq_posattn.preparation.sources import obtain_any
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.preparation.word_options import add_seed, add_word_options, fraction
from fairseq_posattn.preparation.words_stage import asked_vectors, run_words
from fairseq_posattn.text import gpt, manifest
from fairseq_posattn.text.vocabulary import SPECIAL, count_words, write_dictionary

EMPTY_SHOWN = 3


def add_options(corpus, parser):
    """The options of classification beside those that all preparations share."""
    add_word_options(parser)
    parser.add_argument(
        "--language-model",
        type=Path,
        metavar="FOLDER",
        help="split words into the subwords of GPT (Radford et al., 2018), whose vocab.json and "
        "merges.txt are in this folder of Hugging Face's openai-gpt, for fairseq-train with "
        "--language-model FOLDER; instead of --glove, --min-count and --cased",
    )
    division = parser.add_argument_group("division")
    add_seed(division)
    if corpus.source is None:
        parser.set_defaults(valid_fraction=None)
    else:
        division.add_argument(
            "--valid-fraction",
            type=fraction,
            metavar="X",
            default=0.1,
            help="of the training set, each class alike, held out for validation where no "
            "validation set is published (default: %(default)s)",
        )
    corpus.add_options(parser)


def prepare(corpus, options):
    """Do all of it.

    Args:
        corpus: a :class:`.corpus.ClassificationCorpus`.
        options: the parsed command line.

    Raises:
        UsageError: the data cannot be had or used.
    """
    downloads = options.dest.parent / "download"
    tokenizer = _read_tokenizer(options)
    stages = Stages(options.dest, options.limit, options.force)
    with stages.locked():
        given = corpus.given(options)
        if options.source:
            given = obtain_any(corpus.alternatives, options.source, downloads)
        vectors = asked_vectors(options, downloads)
        stages.run(
            "text",
            corpus.texts,
            partial(_write_text, corpus, options, given, downloads, tokenizer),
            source=given and given.fingerprint(),
            **_settings(options, "seed", "valid_fraction", "cased"),
            **corpus.settings(options),
            flag=corpus.flag and corpus.flag.is_given(options),
            **({"tokenizer": sha256(tokenizer.to_str().encode()).hexdigest()} if tokenizer else {}),
        )
        if tokenizer:
            stages.run("vocabulary", ["dict.txt"], partial(_write_subwords, tokenizer))
        else:
            count = partial(_count_words, corpus, options)
            run_words(stages, options, vectors, corpus.min_count, count)
        stages.run(
            "binarised data",
            [f"{part}/{kind}" for part in corpus.parts for kind in (*corpus.inputs, "label")],
            partial(_binarise, corpus, options),
        )
        subwords = {"subwords": gpt.SUBWORDS} if tokenizer else {}
        manifest.stage(stages, corpus, lower=not options.cased, parts=corpus.parts, **subwords)
    _report(corpus, options)


def _read_tokenizer(options):
    if options.language_model is None:
        return None
    for name in ("glove", "min_count", "cased"):
        if getattr(options, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag}: --language-model brings its own vocabulary; leave it out")
    return gpt.read_tokenizer(options.language_model)


def _write_subwords(tokenizer, work):
    subwords = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    known = [one for one, _ in subwords if one not in SPECIAL and one.split() == [one]]
    write_dictionary(work / "dict.txt", dict.fromkeys(known, 1))


def _settings(options, *names):
    return {name: getattr(options, name) for name in names}


def _write_text(corpus, options, given, downloads, tokenizer, work):
    archive = given or obtain_any(corpus.alternatives, None, downloads)
    readers = corpus.splits(archive, options)
    folders = [work / text for text in corpus.texts]
    cut = gpt.splitter(tokenizer) if tokenizer else str
    if WHOLE in readers:
        write_divided(readers[WHOLE], folders, corpus, options, cut)
    else:
        write_splits(readers, *folders, corpus, options, cut)
    for folder in folders if tokenizer else ():
        tokenizer.save(str(folder / gpt.TOKENIZER))


def _count_words(corpus, options):
    """Of training and of the other splits."""
    folder = options.dest / corpus.texts[0]
    counts = {
        split: count_words(folder / f"{split}.{kind}" for kind in corpus.inputs) for split in SPLITS
    }
    training, others = counts["train"], counts["valid"] + counts["test"]
    if corpus.cross_validated:  # in some fold each example is trained on
        return training + others, Counter()
    return training, others


def _binarise(corpus, options, work):
    summary = read_summary(options.dest / corpus.texts[0])
    labels = corpus.labels or sorted(summary["labels"])
    write_dictionary(work / "labels.txt", {name: summary["labels"].get(name, 0) for name in labels})
    folders = list(zip(corpus.parts, corpus.texts, strict=True))
    for kinds, dictionary in (
        (corpus.inputs, options.dest / "dict.txt"),
        (("label",), work / "labels.txt"),
    ):
        targets = {
            options.dest / text / f"{split}.{kind}": work / part / kind / split
            for part, text in folders
            for kind in kinds
            for split in SPLITS
        }
        tell = _say_nothing if corpus.cross_validated or kinds == ("label",) else say
        binarise_files(targets, dictionary, options.jobs, work / "scratch", tell)
    for part, text in folders if corpus.scored else ():
        for split in SPLITS:
            scores = options.dest / text / f"{split}.score"
            shutil.copyfile(scores, work / part / "label" / f"{split}.label")


def _say_nothing(_):
    pass


def _report(corpus, options):
    summary = read_summary(options.dest / corpus.texts[0])
    if corpus.recipe is not None:
        report_counts(summary["read"], corpus.published, options.limit, "examples")
    if summary["unlabelled"]:
        say(f"left out, as their annotators did not agree: {summary['unlabelled']:,}")
    if empty := summary["empty"]:
        more = f" and {len(empty) - EMPTY_SHOWN:,} more" if len(empty) > EMPTY_SHOWN else ""
        say(f"left out, as they have no words: {', '.join(empty[:EMPTY_SHOWN])}{more}")
    divided = ", ".join(f"{count:,} for {split}" for split, count in summary["written"].items())
    say(f"written{' in fold0' if corpus.cross_validated else ''}: {divided}")
    if corpus.recipe is None:
        _report_own(corpus, options, summary)
    else:
        next_dataset(corpus, options.dest)


def _report_own(corpus, options, summary):
    dest = options.dest

    def columns(kinds):
        paths = {
            split: [dest / f"{corpus.texts[0]}/{split}.{kind}" for kind in kinds]
            for split in SPLITS
        }
        return {split: zip(*map(text_lines, files), strict=True) for split, files in paths.items()}

    report_splits(columns(corpus.inputs), ["words"] if not corpus.pairs else corpus.inputs)
    if not corpus.scored:
        labels = columns(["label"])
        report_labels({split: (label for (label,) in rows) for split, rows in labels.items()})
    flags = training.classification_flags(corpus, len(summary["labels"]), summary["longest"])
    model = options.language_model
    vectors = (
        [f"--language-model {shlex.quote(str(model))}"] if model else training.vector_flags(dest)
    )
    training.print_command(dest, [*flags, *vectors])
