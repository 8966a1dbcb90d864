"""From a published corpus of semantic roles to what the task sequence_tagging reads.

An example is a sentence and one of its predicates. A destination holds, binarised and each with its
dictionary, ``words``, ``predicate`` (1 at the predicate's word, 0 elsewhere) and ``tags``; their
text is in ``text/{split}.{words,predicate,tags}``. ``text/{split}.roles`` has an example a line, to
read; ``text/{split}.props`` all sentences, those without a predicate too, to score against.
"""

from collections import Counter
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.preparation.binarise import binarise_files
from fairseq_posattn.preparation.command import next_dataset
from fairseq_posattn.preparation.counts import count_lines, report_counts
from fairseq_posattn.preparation.sources import obtain_any
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.preparation.word_options import add_seed, add_word_options
from fairseq_posattn.preparation.words_stage import asked_vectors, run_words
from fairseq_posattn.text import manifest
from fairseq_posattn.text.props import read_props, readable, write_props
from fairseq_posattn.text.vocabulary import count_words, write_dictionary

COLUMNS = ("words", "predicate", "tags")
FLAGS = {"0": 0, "1": 0}  # the dictionary of ``predicate``


def add_options(corpus, parser):
    """The options of tagging beside those that all preparations share."""
    add_word_options(parser)
    add_seed(parser)


def prepare(corpus, options):
    """Do all of it.

    Args:
        corpus: a :class:`.corpus.TaggingCorpus`.
        options: the parsed command line.

    Raises:
        UsageError: the data cannot be had or used.
    """
    if options.source is None and not corpus.alternatives:
        raise UsageError(f"{corpus.name} cannot be downloaded: --source takes {corpus.source}")
    downloads = options.dest.parent / "download"
    stages = Stages(options.dest, options.limit, options.force)
    with stages.locked():
        given = (
            obtain_any(corpus.alternatives, options.source, downloads) if options.source else None
        )
        vectors = asked_vectors(options, downloads)
        stages.run(
            "text",
            ["text"],
            partial(_write_text, corpus, options, given, downloads),
            source=given and given.fingerprint(),
            cased=options.cased,
            flag=corpus.flag and corpus.flag.is_given(options),
        )
        count = partial(_count_words, corpus, options)
        run_words(stages, options, vectors, corpus.min_count, count)
        stages.run("binarised data", list(COLUMNS), partial(_binarise, corpus, options))
        manifest.stage(stages, corpus, lower=not options.cased)
    _report(corpus, options)


def _write_text(corpus, options, given, downloads, work):
    archive = given or obtain_any(corpus.alternatives, None, downloads)
    for split, sentences in corpus.sentences(archive, options).items():
        sentences = sentences[: options.limit]
        if not any(sentence.roles.propositions for sentence in sentences):
            raise UsageError(f"there is no predicate for {split}: give a larger --limit, or none")
        (work / "text").mkdir(exist_ok=True)
        _write_split(sentences, work / "text" / split, options.cased)


def _write_split(sentences, prefix, cased):
    with writing(f"{prefix}.props") as file:
        file.writelines(write_props(sentence.roles for sentence in sentences))
    examples = [
        (sentence.words, place, tags)
        for sentence in sentences
        for place, tags in sentence.examples()
    ]
    with writing(f"{prefix}.roles") as file:
        file.writelines(f"{readable(*example)}\n" for example in examples)
    columns = {
        "words": lambda words, place, tags: (word if cased else word.lower() for word in words),
        "predicate": lambda words, place, tags: (str(int(at == place)) for at in range(len(words))),
        "tags": lambda words, place, tags: tags,
    }
    for name, column in columns.items():
        with writing(f"{prefix}.{name}") as file:
            file.writelines(f"{' '.join(column(*example))}\n" for example in examples)


def _count_words(corpus, options):
    """Of training and of the other splits."""
    text = options.dest / "text"
    training = count_words([text / "train.words"])
    others = count_words(text / f"{split}.words" for split in corpus.predicates if split != "train")
    return training, others


def _binarise(corpus, options, work):
    text = options.dest / "text"
    tags = Counter(count_words([text / "train.tags"]))
    for split in corpus.predicates:  # a tag that training lacks can be scored, if never predicted
        tags.update(dict.fromkeys(count_words([text / f"{split}.tags"]), 0))
    write_dictionary(work / "tags.txt", {tag: tags[tag] for tag in sorted(tags)})
    write_dictionary(work / "flags.txt", FLAGS)
    dictionaries = (options.dest / "dict.txt", work / "flags.txt", work / "tags.txt")
    for name, dictionary in zip(COLUMNS, dictionaries, strict=True):
        targets = {text / f"{split}.{name}": work / name / split for split in corpus.predicates}
        binarise_files(targets, dictionary, options.jobs, work / "scratch")


def _report(corpus, options):
    text = options.dest / "text"
    sentences = {split: len(read_props(text / f"{split}.props")) for split in corpus.published}
    report_counts(sentences, corpus.published, options.limit, "sentences")
    examples = {split: count_lines(text / f"{split}.roles") for split in corpus.predicates}
    report_counts(examples, corpus.predicates, options.limit, "predicates")
    next_dataset(corpus, options.dest)
