"""Preparation of semantic roles, from published files to what sequence_tagging reads.

An example is a sentence with one of its predicates. A destination holds, binarised and each with
its dictionary, ``words``, ``predicate`` (1 at the predicate's word, 0 elsewhere) and ``tags``;
their text is in ``text/{split}.{words,predicate,tags}``. ``text/{split}.roles`` has a readable
example a line; ``text/{split}.props`` all sentences, also without predicates, for scoring.
"""

from collections import Counter

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.preparation import vectors
from fairseq_posattn.preparation.binarise import binarise_files
from fairseq_posattn.preparation.command import next_dataset
from fairseq_posattn.preparation.counts import count_lines, report_counts
from fairseq_posattn.preparation.sources import obtain_any
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text.props import read_props, readable, write_props
from fairseq_posattn.text.vocabulary import count_words, write_dictionary

COLUMNS = ("words", "predicate", "tags")
FLAGS = {"0": 0, "1": 0}  # dictionary of ``predicate``


def add_options(corpus, parser):
    """Add the options of tagging."""
    vectors.add_word_options(parser)
    vectors.add_seed(parser)


def prepare(corpus, options):
    """Prepare a :class:`.corpus.TaggingCorpus`; ``options`` is the parsed command line."""
    if options.source is None and not corpus.alternatives:
        raise UsageError(f"{corpus.name} cannot be downloaded: --source takes {corpus.source}")
    downloads, text = options.dest.parent / "download", options.dest / "text"
    stages = Stages(options.dest, options.limit, options.force)
    with stages.locked():
        given = None
        if options.source:
            given = obtain_any(corpus.alternatives, options.source, downloads)
        glove = vectors.find_vectors(options.glove, downloads, options.glove_dim)

        def write_text(work):
            archive = given or obtain_any(corpus.alternatives, None, downloads)
            (work / "text").mkdir(exist_ok=True)
            for split, sentences in corpus.sentences(archive, options).items():
                _write_split(sentences[: options.limit], work / "text" / split, options.cased)

        def count():
            training = count_words([text / "train.words"])
            others = (split for split in corpus.predicates if split != "train")
            return training, count_words(text / f"{split}.words" for split in others)

        stages.run(
            "text",
            ["text"],
            write_text,
            source=given and given.fingerprint(),
            cased=options.cased,
            **corpus.text_settings(options),
        )
        vectors.run_words(stages, corpus, options, glove, count)
        stages.run(
            "binarised data", list(COLUMNS), lambda work: _binarise(corpus, options, text, work)
        )

        def count_examples():
            return {split: count_lines(text / f"{split}.roles") for split in corpus.predicates}

        write_manifests(
            stages,
            corpus,
            count=lambda: {
                "examples": count_examples(),
                "features": vectors.features(options.dest),
            },
            lower=not options.cased,
        )
    sentences = {split: len(read_props(text / f"{split}.props")) for split in corpus.published}
    report_counts(sentences, corpus.published, options.limit, "sentences")
    report_counts(count_examples(), corpus.predicates, options.limit, "predicates")
    next_dataset(corpus, options.dest)


def _write_split(sentences, prefix, cased):
    examples = [
        (sentence.words, place, tags)
        for sentence in sentences
        for place, tags in sentence.examples()
    ]
    if not examples:
        raise UsageError(f"there is no predicate for {prefix.name}: raise or drop --limit")
    with writing(f"{prefix}.props") as file:
        file.writelines(write_props(sentence.roles for sentence in sentences))
    columns = {
        "roles": readable,
        "words": lambda words, _, tags: " ".join(words if cased else map(str.lower, words)),
        "predicate": lambda words, place, _: " ".join(
            str(+(at == place)) for at in range(len(words))
        ),
        "tags": lambda words, place, tags: " ".join(tags),
    }
    for name, column in columns.items():
        with writing(f"{prefix}.{name}") as file:
            file.writelines(f"{column(*example)}\n" for example in examples)


def _binarise(corpus, options, text, work):
    tags = Counter(count_words([text / "train.tags"]))
    for split in corpus.predicates:  # tags that training lacks can be scored, if not predicted
        tags.update(dict.fromkeys(count_words([text / f"{split}.tags"]), 0))
    write_dictionary(work / "tags.txt", {tag: tags[tag] for tag in sorted(tags)})
    write_dictionary(work / "flags.txt", FLAGS)
    dictionaries = (options.dest / "dict.txt", work / "flags.txt", work / "tags.txt")
    for name, dictionary in zip(COLUMNS, dictionaries, strict=True):
        targets = {text / f"{split}.{name}": work / name / split for split in corpus.predicates}
        binarise_files(targets, dictionary, options.jobs, work / "scratch")
