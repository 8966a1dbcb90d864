"""Preparation of translations and summaries, from published files to binarized data.

The text folder holds ``{train,valid,test}.{source,target}``, ``clean.train.*`` if pairs are cleaned
in words, the subword model, and all text in subwords with the prefix of its kind.
"""

import shlex
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

from fairseq_posattn.common.cli import add_count
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import binarize, report, round_trip
from fairseq_posattn.preparation.corpus import SIDES, SPLITS
from fairseq_posattn.preparation.parallel import map_pairs, write_pairs
from fairseq_posattn.preparation.segmentation import BY_TEXT, KINDS
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.manifest import read as read_manifest
from fairseq_posattn.text.moses import RATIO, is_clean
from fairseq_posattn.text.vocabulary import SPECIAL, write_dictionary

LONGEST = 1023  # tokens that fairseq's task of translation takes by default, besides the end symbol


def add_translation_options(corpus, parser):
    merges = "byte-pair merges, learned on both languages together"
    default = corpus.bpe_operations if corpus.recipe else None
    other = f"{corpus.bpe_operations} with subword_nmt, else see --vocabulary-size"
    add_count(parser, "--bpe-operations", default, merges, other)
    corpus.add_options(parser)


def add_summarization_options(corpus, parser):
    kinds = ("sentencepiece", "wordpiece")
    about = "wordpiece: as for BERT and the published Mask Attention Networks, lowercased unless "
    about += "--cased; sentencepiece: of the unchanged text (default: %(default)s)"
    parser.add_argument("--subwords", choices=kinds, default=corpus.subwords, help=about)
    size, usual = "subwords to learn on texts and summaries together", 30_000
    add_count(parser, "--vocabulary-size", usual if corpus.recipe else None, size, BY_TEXT)
    vocabulary = (
        "with --subwords wordpiece: use this vocabulary, one subword a line, such as BERT's "
        "vocab.txt, as the published models do (default: learn one)"
    )
    parser.add_argument("--wordpiece-vocabulary", type=Path, metavar="FILE", help=vocabulary)
    cased = "with --subwords wordpiece: keep case (default: lowercase)"
    parser.add_argument("--cased", action="store_true", help=cased)
    parser.set_defaults(strip_accents=corpus.recipe is not None)
    most = "maximum subwords of a line; dman_summarization has 512 positions with the end symbol"
    add_count(parser, "--max-pieces", 511, most)
    corpus.add_options(parser)


def prepare_translations(corpus, options):
    kind = KINDS[corpus.subwords](options) if corpus.subwords else None
    joined = corpus.recipe is not None or not options.separate_dictionaries
    whole = corpus.subwords == "sentencepiece"
    return prepare(corpus, options, kind, joined, all_subwords=whole, lower=corpus.lower)


def prepare_summaries(corpus, options):
    kind, corpus = KINDS[options.subwords](options), replace(corpus, subwords=options.subwords)
    described = {"lower": kind.lower, "cased": not kind.lower, "longest": options.max_pieces}
    described["accents"] = kind.accents
    return prepare(corpus, options, kind, all_subwords=True, **described)


def prepare(corpus, options, kind, joined=True, all_subwords=False, **described):
    """Prepare text, subwords (by ``kind``, of :data:`.segmentation.KINDS`) and binarized data.

    With ``all_subwords`` the dictionary also holds those that the training text lacks.
    """
    given = corpus.find_files(options) if options.source or corpus.source is None else None
    splits, sides, prefix = corpus.splits(options), corpus.sides, kind.prefix if kind else ""

    def write_text(work):
        corpus.write_text(given or corpus.find_files(options), work / "text", options)

    is_own = corpus.recipe is None
    if is_own and options.normalize != "none":
        described["normalize"] = options.normalize

    def count(folder):
        files = {split: folder / f"text/{prefix}{split}.{sides[0]}" for split in splits}
        return {split: report.count_lines(file) for split, file in files.items()}

    def describe(work):
        counted = {"examples": count(work)}
        if is_own:
            names = ("task", "word_rule", "subwords")
            fields = {name: getattr(corpus, name) for name in names} | described
            rules = Manifest(corpus=corpus.name, languages=sides, **fields)
            counted["round_trip"] = round_trip.measure(work, replace(rules, longest=None))
        return counted

    with Stages(options.dest, options.limit, options.force).locked() as stages:
        raw = [f"{name}.{side}" for side in sides for name in ("test", "text/sample")]
        raw = raw if is_own else []
        outputs, source = [*text_files(sides, splits=splits), *raw], corpus.fingerprint
        chosen = corpus.text_settings(options)
        stages.run("text", outputs, write_text, given and source(given), **chosen)
        train = "train"
        if corpus.longest_words is not None:
            train = clean_in_words(stages, sides, corpus.longest_words, corpus.ratio)
        if kind:
            limits = {"longest": corpus.longest, "ratio": corpus.ratio}
            run_subwords(stages, sides, splits, kind, options, train=train, **limits)
        vocabulary = kind.vocabulary if all_subwords else None
        _binarize(stages, sides, splits, prefix, options.jobs, joined, vocabulary)
        described["joined"] = joined
        write_manifests(stages, corpus, count=describe, **described)
    if is_own:
        texts = {split: _text_pairs(options.dest, f"{prefix}{split}", sides) for split in SPLITS}
        most = getattr(options, "max_pieces", LONGEST)
        report.report_splits(texts, sides, lambda pair: pair[0], most)  # compared by their sources
        round_trip.report(read_manifest(options.dest).round_trip)
    else:
        counts = count(options.dest)
        if corpus.longest or corpus.longest_words:
            counts = {"raw": report.count_lines(options.dest / f"text/train.{sides[0]}"), **counts}
        report.report_counts(counts, corpus.published, options.limit, "pairs")
    train = report.next_commands(corpus, options.dest)
    if corpus.recipe is None:
        saved, text = f"checkpoints/{options.dest.name}", f"{report.shown(options.dest)}/test"
        words = ["posattn", "summarize" if sides == SIDES else "translate", saved]
        words += ["--input", f"{text}.{sides[0]}", "--output", f"{saved}/test.{sides[1]}"]
        print(f"then, on the raw test set,\n    {shlex.join(words)}")
    return train


def clean_in_words(stages, sides, longest, ratio):
    """Drop training pairs of too many words or of another length ratio; return the text's name."""

    def clean(work):
        pairs = _text_pairs(work, "train", sides)
        pairs = (pair for pair in pairs if is_clean(pair, longest, ratio))
        write_pairs(pairs, work / "text/clean.train", sides)

    outputs = text_files(sides, "clean.", ["train"])
    stages.run("cleaning", outputs, clean, longest_words=longest, ratio=ratio)
    return "clean.train"


def run_subwords(stages, sides, splits, kind, options, train="train", longest=None, ratio=RATIO):
    """Learn subwords on the text called ``train``, all sides together, and split all text.

    Training pairs of more than ``longest`` subwords or of a larger ``ratio`` are dropped.
    """
    most = getattr(options, "max_pieces", None)

    def learn(work):
        files = [work / name for name in text_files(sides, "", [train])]
        kind.learn(lambda: chain.from_iterable(map(file_lines, files)), work)

    def apply(work):
        encoder = kind.encoder(work)
        for split in splits:
            pairs = _text_pairs(work, train if split == "train" else split, sides)
            pairs = map_pairs([encoder] * 2, pairs, options.jobs, f"splitting {split}")
            if longest is not None and split == "train":
                pairs = (pair for pair in pairs if is_clean(pair, longest, ratio))
            if most is not None:
                pairs = _cut(pairs, most, split, sides)
            write_pairs(pairs, work / f"text/{kind.prefix}{split}", sides)

    stages.run("learning subwords", kind.files, learn, **kind.settings)
    outputs = text_files(sides, kind.prefix, splits)
    stages.run("subwords", outputs, apply, max_pieces=most, longest=longest, ratio=ratio)


def _cut(pairs, most, split, sides):
    """Yield pairs cut to ``most`` subwords a side; print at the end how many lines were cut."""
    number, cut = 0, Counter()
    for pair in pairs:
        number += 1
        texts = [line.split(" ", most) for line in pair]
        cut.update(side for side, text in zip(sides, texts, strict=True) if len(text) > most)
        yield [" ".join(text[:most]) for text in texts]
    for side, count in cut.items():
        share = f"{count:,} of {number:,} lines, {count / number:.1%}"
        say(f"warning: {split}.{side}: cut after {most} subwords ({share}): raise --max-pieces")


def _binarize(stages, sides, splits, prefix, jobs, joined, vocabulary):
    pair = "-".join(sides)
    outputs = [f"dict.{side}.txt" for side in sides]
    for split in splits:
        outputs += [f"{split}.{pair}.{side}.{kind}" for side in sides for kind in ("bin", "idx")]

    def make(work):
        flags = {"source_lang": sides[0], "target_lang": sides[1], "joined_dictionary": joined}
        if vocabulary:
            flags["srcdict"] = work / "dictionary.txt"
            # fairseq pads dictionaries with such words to a multiple of 8, for speed on GPUs.
            words = vocabulary(work)
            words += [f"madeupword{n:04}" for n in range(-(len(SPECIAL) + len(words)) % 8)]
            write_dictionary(flags["srcdict"], dict.fromkeys(words, 1))
            if not joined:  # names and quotations are in the other language
                flags["tgtdict"] = flags["srcdict"]
        files = {f"{split}pref": work / f"text/{prefix}{split}" for split in splits}
        binarize.preprocess(work, jobs, **files, **flags)

    stages.run("binarizing", outputs, make, joined=joined)


def text_files(sides, prefix="", splits=SPLITS):
    return [f"text/{prefix}{split}.{side}" for split in splits for side in sides]


def _text_pairs(folder, name, sides):
    return zip(*(file_lines(folder / f"text/{name}.{side}") for side in sides), strict=True)
