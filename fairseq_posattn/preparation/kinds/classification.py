"""Preparation of labelled text, from published files to what sentence_prediction reads.

A destination holds ``input0``, for pairs ``input1``, and ``label``: the binarised splits, each with
a dictionary; inputs share theirs. ``label/{split}.label`` holds scores for
``--regression-target``, if there are any. Tokens are in ``text/{split}.{input0,input1,label}``,
their vectors in ``glove.txt``. Cross-validated data sets have all but the vectors in ``fold0`` to
``fold9``.
"""

import shlex
import shutil
from collections import Counter
from functools import partial
from hashlib import sha256
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import counts, labelled_text, vectors
from fairseq_posattn.preparation.binarise import binarise_files
from fairseq_posattn.preparation.command import next_dataset, next_training, shown
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.sources import obtain_any
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text import gpt
from fairseq_posattn.text.vocabulary import SPECIAL, count_words, write_dictionary

EMPTY_SHOWN = 3
POSITIONS = 512  # default maximum length of fairseq's task
LONG = 100  # words; the attention of sentence classifiers needs much memory for more


def add_options(corpus, parser):
    """Add the options of classification, and the corpus's own."""
    vectors.add_word_options(parser)
    parser.add_argument(
        "--language-model",
        type=Path,
        metavar="FOLDER",
        help="split words into the subwords of GPT (Radford et al., 2018), whose vocab.json and "
        "merges.txt are in this folder of Hugging Face's openai-gpt, for fairseq-train with "
        "--language-model FOLDER; instead of --glove, --min-count and --cased",
    )
    division = parser.add_argument_group("division")
    vectors.add_seed(division)
    if corpus.source is None:
        parser.set_defaults(valid_fraction=None)
    else:
        division.add_argument(
            "--valid-fraction",
            type=vectors.fraction,
            metavar="X",
            default=0.1,
            help="share of each class of the training set that is held out for validation if no "
            "validation set is published (default: %(default)s)",
        )
    corpus.add_options(parser)


def prepare(corpus, options):
    """Prepare a :class:`.corpus.ClassificationCorpus`; ``options`` is the parsed command line."""
    downloads = options.dest.parent / "download"
    tokenizer = _read_tokenizer(options)
    stages = Stages(options.dest, options.limit, options.force)
    with stages.locked():
        given = corpus.given(options)
        if options.source:
            given = obtain_any(corpus.alternatives, options.source, downloads)
        glove = vectors.find_vectors(options.glove, downloads, options.glove_dim)

        stages.run(
            "text",
            corpus.texts,
            partial(_write_text, corpus, options, given, downloads, tokenizer),
            source=given and given.fingerprint(),
            seed=options.seed,
            valid_fraction=options.valid_fraction,
            cased=options.cased,
            **corpus.text_settings(options),
            **({"tokenizer": sha256(tokenizer.to_str().encode()).hexdigest()} if tokenizer else {}),
        )
        if tokenizer:
            stages.run("vocabulary", ["dict.txt"], partial(_write_subwords, tokenizer))
        else:
            count = partial(_count_words, corpus, options)
            vectors.run_words(stages, corpus, options, glove, count)
        stages.run(
            "binarised data",
            [f"{part}/{kind}" for part in corpus.parts for kind in (*corpus.inputs, "label")],
            lambda work: _binarise(corpus, options, work),
        )
        subwords = {"subwords": gpt.SUBWORDS} if tokenizer else {}

        def count():
            summary = labelled_text.read_summary(options.dest / corpus.texts[0])
            return {
                "examples": summary["written"],
                "classes": corpus.count_classes(summary["labels"]),
                "longest_text": summary["longest"],
                "features": vectors.features(options.dest),
            }

        write_manifests(
            stages, corpus, count=count, parts=corpus.parts, lower=not options.cased, **subwords
        )
    _report(corpus, options)


def _read_tokenizer(options):
    if options.language_model is None:
        return None
    for name in ("glove", "min_count", "cased"):
        if getattr(options, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag}: --language-model brings its own vocabulary; leave it out")
    return gpt.read_tokenizer(options.language_model)


def _write_text(corpus, options, given, downloads, tokenizer, work):
    archive = given or obtain_any(corpus.alternatives, None, downloads)
    readers = corpus.splits(archive, options)
    folders = [work / text for text in corpus.texts]
    cut = gpt.splitter(tokenizer) if tokenizer else str
    if labelled_text.WHOLE in readers:
        labelled_text.write_divided(readers[labelled_text.WHOLE], folders, corpus, options, cut)
    else:
        labelled_text.write_splits(readers, *folders, corpus, options, cut)
    for folder in folders if tokenizer else ():
        tokenizer.save(str(folder / gpt.TOKENIZER))


def _write_subwords(tokenizer, work):
    subwords = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    known = [one for one, _ in subwords if one not in SPECIAL and one.split() == [one]]
    write_dictionary(work / "dict.txt", dict.fromkeys(known, 1))


def _count_words(corpus, options):
    folder = options.dest / corpus.texts[0]
    train, *rest = (
        count_words(folder / f"{split}.{kind}" for kind in corpus.inputs) for split in SPLITS
    )
    if corpus.cross_validated:  # each example is in the training set of some fold
        return sum(rest, train), Counter()
    return train, sum(rest, Counter())


def _binarise(corpus, options, work):
    occurrences = labelled_text.read_summary(options.dest / corpus.texts[0])["labels"]
    labels = corpus.labels or sorted(occurrences)
    write_dictionary(work / "labels.txt", {name: occurrences.get(name, 0) for name in labels})
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
        quiet = corpus.cross_validated or kinds == ("label",)
        report = (lambda line: None) if quiet else say
        binarise_files(targets, dictionary, options.jobs, work / "scratch", report)
    for part, text in folders if corpus.scored else ():
        for split in SPLITS:
            scores = options.dest / text / f"{split}.score"
            shutil.copyfile(scores, work / part / "label" / f"{split}.label")


def _report(corpus, options):
    summary = labelled_text.read_summary(options.dest / corpus.texts[0])
    if corpus.recipe is not None:
        counts.report_counts(summary["read"], corpus.published, options.limit, "examples")
    if summary["unlabelled"]:
        say(f"left out, since their annotators did not agree: {summary['unlabelled']:,}")
    if empty := summary["empty"]:
        more = f" and {len(empty) - EMPTY_SHOWN:,} more" if len(empty) > EMPTY_SHOWN else ""
        say(f"left out, since they have no words: {', '.join(empty[:EMPTY_SHOWN])}{more}")
    written = ", ".join(f"{count:,} for {split}" for split, count in summary["written"].items())
    say(f"written{' in fold0' if corpus.cross_validated else ''}: {written}")
    if corpus.recipe is None:
        _report_custom(corpus, options, summary)
    else:
        next_dataset(corpus, options.dest)


def _report_custom(corpus, options, summary):
    dest = options.dest

    def columns(*kinds):
        paths = {split: [dest / f"text/{split}.{kind}" for kind in kinds] for split in SPLITS}
        return {
            split: zip(*map(counts.text_lines, files), strict=True)
            for split, files in paths.items()
        }

    counts.report_splits(columns(*corpus.inputs), corpus.inputs if corpus.pairs else ["words"])
    if not corpus.scored:
        rows = columns("label").items()
        counts.report_labels({split: (label for (label,) in labels) for split, labels in rows})
    classes = corpus.count_classes(summary["labels"])
    flags = training_flags(corpus, classes, summary["longest"])
    if options.language_model:
        flags.append(f"--language-model {shlex.quote(str(options.language_model))}")
    elif features := vectors.features(dest):
        path = shlex.quote(str(shown(dest / "glove.txt")))
        flags.append(f"--encoder-embed-path {path} --encoder-embed-dim {features}")
    next_training(dest, flags)


def training_flags(corpus, classes, longest):
    """Return the lines of flags that train on custom data; ``longest``: words of a text."""
    target = f"--num-classes {classes} --criterion {corpus.criterion}"
    best = f"--best-checkpoint-metric {corpus.metrics[0]}"
    if corpus.metrics[0] == "accuracy":
        best += " --maximize-best-checkpoint-metric"
    model, dropout = ("cspan_classifier", 0.2) if longest > LONG else ("mpsan_classifier", 0.3)
    flags = [
        f"--task {corpus.task} {target}",
        f"--arch {model} --dropout {dropout}",
        "--optimizer adam --lr 1e-3 --batch-size 64 --max-epoch 15",
        best,
    ]
    if longest >= POSITIONS:
        flags.insert(3, f"--max-positions {POSITIONS} --shorten-method truncate")
    return flags
