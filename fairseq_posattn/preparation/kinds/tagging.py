"""Preparation of semantic roles, from published files to what sequence_tagging reads.

An example is a sentence with one of its predicates: ``words``, ``predicate`` (1 at its word, 0
elsewhere) and ``tags``. ``text/{split}.props`` has all sentences, for scoring.
"""

from collections import Counter
from functools import partial

from fairseq_posattn.common import files
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import report, vectors
from fairseq_posattn.preparation.binarize import binarize_columns
from fairseq_posattn.preparation.download import obtain_any
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text.props import read_props, readable, write_props
from fairseq_posattn.text.vocabulary import count_words, write_dictionary

COLUMNS = ("words", "predicate", "tags")
FLAGS = {"0": 0, "1": 0}  # dictionary of ``predicate``


def prepare(corpus, options):
    downloads, splits = options.dest.parent / "download", list(corpus.predicates)

    def write_text(work):
        archive = given or obtain_any(corpus.alternatives, None, downloads)
        (work / "text").mkdir()
        for split, sentences in corpus.sentences(archive, options).items():
            _write_split(sentences[: options.limit], work / "text" / split, options.cased)

    def count(work):
        paths = {split: work / f"text/{split}.words" for split in splits}
        return count_words([paths.pop("train")]), count_words(paths.values())

    def describe(folder):
        examples = {split: report.count_lines(folder / f"text/{split}.roles") for split in splits}
        return {"examples": examples, "features": vectors.features(folder)}

    with Stages(options.dest, options.limit, options.force).locked() as stages:
        given = options.source and obtain_any(corpus.alternatives, options.source, downloads)
        glove = vectors.find_vectors(options.glove, downloads, options.glove_dim)
        chosen = {"cased": options.cased, **corpus.text_settings(options)}
        stages.run("text", ["text"], write_text, given and given.fingerprint(), **chosen)
        vectors.run_words(stages, corpus, options, glove, count)
        stages.run("binarized data", list(COLUMNS), partial(_binarize, splits, options.jobs))
        write_manifests(stages, corpus, count=describe, lower=not options.cased)
    text = options.dest / "text"
    sentences = {split: len(read_props(text / f"{split}.props")) for split in corpus.published}
    report.report_counts(sentences, corpus.published, options.limit, "sentences")
    examples = describe(options.dest)["examples"]
    report.report_counts(examples, corpus.predicates, options.limit, "predicates")
    return report.next_commands(corpus, options.dest, by_name=True)


def _write_split(sentences, prefix, cased):
    lines = {name: [] for name in ("roles", *COLUMNS)}
    for sentence in sentences:
        words = " ".join(sentence.words)
        for place, tags in sentence.examples():
            lines["roles"].append(readable(sentence.words, place, tags))
            lines["words"].append(words if cased else words.lower())
            flags = ("1" if at == place else "0" for at in range(len(sentence.words)))
            lines["predicate"].append(" ".join(flags))
            lines["tags"].append(" ".join(tags))
    if not lines["roles"]:
        raise UsageError(f"there is no predicate for {prefix.name}: raise or drop --limit")
    for name, texts in lines.items():
        files.write_text(f"{prefix}.{name}", "".join(f"{line}\n" for line in texts))
    files.write_text(f"{prefix}.props", "".join(write_props(one.roles for one in sentences)))


def _binarize(splits, jobs, work):
    text = work / "text"
    tags = Counter(count_words([text / "train.tags"]))
    for split in splits:  # tags that training lacks can be scored, if not predicted
        tags.update(dict.fromkeys(count_words([text / f"{split}.tags"]), 0))
    write_dictionary(work / "tags.txt", {tag: tags[tag] for tag in sorted(tags)})
    write_dictionary(work / "flags.txt", FLAGS)
    for name, dictionary in zip(COLUMNS, ("dict.txt", "flags.txt", "tags.txt"), strict=True):
        binarize_columns(work, [name], dictionary, splits, jobs)
