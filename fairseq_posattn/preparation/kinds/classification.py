"""Preparation of labeled text, from published files to what sentence_prediction reads.

A destination holds the binarized splits in ``input0``, for pairs ``input1``, and ``label``, where
``{split}.label`` has scores, if any; tokens are in ``text``, vectors in ``glove.txt``.
Cross-validated data sets have all but the vectors in ``fold0`` to ``fold9``.
"""

import shutil
from argparse import Namespace
from collections import Counter
from functools import partial
from hashlib import sha256
from itertools import islice, product
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import examples, report, vectors
from fairseq_posattn.preparation.binarize import binarize_columns
from fairseq_posattn.preparation.corpus import POSITIONS, SPLITS
from fairseq_posattn.preparation.download import obtain_any
from fairseq_posattn.preparation.segmentation import KINDS
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text import gpt
from fairseq_posattn.text.lines import file_lines, one_line
from fairseq_posattn.text.vocabulary import SPECIAL, count_words, write_dictionary

EMPTY_SHOWN = 3


def add_options(corpus, parser):
    vectors.add_word_options(parser)
    model = (
        "split words into the subwords of GPT (Radford et al., 2018), whose vocab.json and "
        "merges.txt are in this folder of Hugging Face's openai-gpt, for fairseq-train with "
        "--language-model FOLDER; instead of --glove, --min-count and --cased"
    )
    parser.add_argument("--language-model", type=Path, metavar="FOLDER", help=model)
    share = (
        "share of each class of the training set that is held out for validation if no validation "
        "set is published (default: %(default)s)"
    )
    if corpus.source is None:
        parser.set_defaults(valid_fraction=None)
    else:
        held = {"type": vectors.fraction, "metavar": "X", "default": 0.1}
        parser.add_argument("--valid-fraction", help=share, **held)
    corpus.add_options(parser)


def prepare(corpus, options):
    downloads = options.dest.parent / "download"
    tokenizer, kind = _read_tokenizer(options), None
    if corpus.subwords:
        options = Namespace(**{**vars(options), "cased": True})  # subwords lose nothing
        size = {"vocabulary_size": options.vocabulary_size, "bpe_operations": corpus.bpe_operations}
        kind = KINDS[corpus.subwords](Namespace(cased=False, wordpiece_vocabulary=None, **size))
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        given = corpus.given(options)
        if options.source:
            given = obtain_any(corpus.alternatives, options.source, downloads)
        glove = vectors.find_vectors(options.glove, downloads, options.glove_dim)
        digest = {"tokenizer": sha256(tokenizer.to_str().encode()).hexdigest()} if tokenizer else {}
        chosen = {name: getattr(options, name) for name in ("seed", "valid_fraction", "cased")}
        chosen |= corpus.text_settings(options) | digest | (kind.settings if kind else {})
        make = partial(_write_text, corpus, options, given, downloads, tokenizer, kind)
        stages.run("text", corpus.texts, make, given and given.fingerprint(), **chosen)
        described = {"lower": not options.cased}
        if tokenizer or kind:
            stages.run("vocabulary", ["dict.txt"], partial(_write_subwords, tokenizer, kind))
            described["subwords"] = corpus.subwords or gpt.SUBWORDS
        else:
            vectors.run_words(stages, corpus, options, glove, partial(_count_words, corpus))
        outputs = [f"{part}/{kind}" for part in corpus.parts for kind in (*corpus.inputs, "label")]
        stages.run("binarized data", outputs, partial(_binarize, corpus, options.jobs))
        count = partial(_describe, corpus)
        write_manifests(stages, corpus, count=count, parts=corpus.parts, **described)
    return _report(corpus, options)


def _read_tokenizer(options):
    if options.language_model is None:
        return None
    for flag in ("--glove", "--min-count", "--cased"):
        if getattr(options, flag[2:].replace("-", "_")):
            raise UsageError(f"{flag}: --language-model brings its own vocabulary; leave it out")
    return gpt.read_tokenizer(options.language_model)


def _write_text(corpus, options, given, downloads, tokenizer, kind, work):
    archive = given or obtain_any(corpus.alternatives, None, downloads)
    readers = corpus.splits(archive, options)
    folders = [work / text for text in corpus.texts]
    cut = gpt.splitter(tokenizer) if tokenizer else str
    if kind:
        folders[0].mkdir()
        kind.learn(partial(_training_lines, readers["train"], options.limit), work)
        cut = kind.encoder(work)
    if examples.WHOLE in readers:
        examples.write_divided(readers[examples.WHOLE], folders, corpus, options, cut)
    else:
        examples.write_splits(readers, *folders, corpus, options, cut)
    for folder in folders if tokenizer else ():
        tokenizer.save(str(folder / gpt.TOKENIZER))


def _training_lines(read, limit):
    for example in islice(read(), limit):
        yield from map(one_line, example.inputs)


def _write_subwords(tokenizer, kind, work):
    subwords = kind.vocabulary(work) if kind else None
    if tokenizer:
        numbers = tokenizer.get_vocab()
        subwords = sorted(numbers, key=numbers.get)
    known = [one for one in subwords if one not in SPECIAL and one.split() == [one]]
    write_dictionary(work / "dict.txt", dict.fromkeys(known, 1))


def _count_words(corpus, folder):
    text = folder / corpus.texts[0]
    files = ([text / f"{split}.{kind}" for kind in corpus.inputs] for split in SPLITS)
    train, *rest = map(count_words, files)
    if corpus.cross_validated:  # each example is in the training set of some fold
        return sum(rest, train), Counter()
    return train, sum(rest, Counter())


def _describe(corpus, folder):
    summary = examples.read_summary(folder / corpus.texts[0])
    return {
        "examples": summary["written"],
        "classes": corpus.num_classes or len(summary["labels"]),
        "longest_text": summary["longest"],
        "features": vectors.features(folder),
    }


def _binarize(corpus, jobs, work):
    occurrences = examples.read_summary(work / corpus.texts[0])["labels"]
    labels = corpus.labels or sorted(occurrences)
    if not corpus.scored and len(labels) == 1:
        raise UsageError(f"--label: all texts have the class {labels[0]!r}; give at least two")
    write_dictionary(work / "labels.txt", {name: occurrences.get(name, 0) for name in labels})
    folders = list(zip(corpus.parts, corpus.texts, strict=True))
    for columns, dictionary in ((corpus.inputs, "dict.txt"), (("label",), "labels.txt")):
        quiet = corpus.cross_validated or columns == ("label",)
        tell = (lambda line: None) if quiet else say
        binarize_columns(work, columns, dictionary, SPLITS, jobs, tell, folders)
    for part, text in folders if corpus.scored else ():
        for split in SPLITS:
            scores = work / text / f"{split}.score"
            shutil.copyfile(scores, work / part / "label" / f"{split}.label")


def _report(corpus, options):
    dest = options.dest
    summary = examples.read_summary(dest / corpus.texts[0])
    if corpus.recipe is not None:
        report.report_counts(summary["read"], corpus.published, options.limit, "examples")
    if summary["unlabelled"]:
        say(f"left out, since their annotators did not agree: {summary['unlabelled']:,}")
    if empty := summary["empty"]:
        more = f" and {len(empty) - EMPTY_SHOWN:,} more" if len(empty) > EMPTY_SHOWN else ""
        share = f"{len(empty) / sum(summary['read'].values()):.1%}"
        say(f"left out, since they have no words: {', '.join(empty[:EMPTY_SHOWN])}{more} ({share})")
    written = ", ".join(f"{count:,} for {split}" for split, count in summary["written"].items())
    say(f"written{' in fold0' if corpus.cross_validated else ''}: {written}")
    if summary["longest"] >= POSITIONS:
        _report_cuts(corpus, dest / corpus.texts[0])
    if corpus.recipe is None:
        _report_custom(corpus, dest / "text")
    folder = dest / "fold0" if corpus.cross_validated else None
    extra = ["--language-model", str(options.language_model)] if options.language_model else ()
    return report.next_commands(corpus, dest, by_name=True, folder=folder, extra=extra)


def _report_cuts(corpus, text):
    for split, kind in product(SPLITS, corpus.inputs):
        lengths = [len(line.split()) for line in file_lines(text / f"{split}.{kind}")]
        if cut := sum(length >= POSITIONS for length in lengths):
            say(
                f"warning: {split}.{kind}: {cut:,} of {len(lengths):,} texts "
                f"({cut / len(lengths):.1%}) will be cut to {POSITIONS} tokens by posattn train; "
                "'-- --max-positions N' there reads more"
            )


def _report_custom(corpus, text):
    def columns(kind):
        return {split: file_lines(text / f"{split}.{kind}") for split in SPLITS}

    inputs = [columns(kind) for kind in corpus.inputs]
    texts_of = {s: zip(*(texts[s] for texts in inputs), strict=True) for s in SPLITS}
    unit = "subwords" if corpus.subwords else "words"
    report.report_splits(texts_of, corpus.inputs if corpus.pairs else [unit])
    if not corpus.scored:
        report.report_labels(columns("label"))
