"""Data sets of classification, tagging and recommendation recipes, from their corpora."""

from fairseq_posattn.preparation.corpora import CLASSIFICATION, RECOMMENDATION, TAGGING
from fairseq_posattn.preparation.corpus import FOLDS, ClassificationCorpus, TaggingCorpus
from fairseq_posattn.recipes.recipe import Dataset

# The papers' code also trains on SST's phrases in five classes.
PREPARATION = {"sst5": "--weighted-phrases"}


def _dataset(corpus: ClassificationCorpus) -> Dataset:
    longest = corpus.longest
    return Dataset(
        name=corpus.name,
        classes=corpus.num_classes,
        metrics=corpus.metrics,
        task=corpus.task,
        criterion=corpus.criterion,
        folds=FOLDS if corpus.cross_validated else 0,
        positions=f"--max-positions {longest} --shorten-method truncate" if longest else "",
        preparation=PREPARATION.get(corpus.name, ""),
        columns=(*corpus.inputs, "label"),
        tiny="--head-dim 12 --pooling-queries 2 --ngram-buckets 64 --sentence-ends cue0",
    )


def _roles(corpus: TaggingCorpus) -> Dataset:
    tests = tuple(split for split in corpus.predicates if split.startswith("test"))
    prefixes = ("", *(f"{split}_" for split in tests[1:]), "valid_")
    scores = ("f1", "precision", "recall", "complete")
    return Dataset(
        name=corpus.name,
        classes=0,
        metrics=tuple(prefix + score for prefix in prefixes for score in scores),
        task=corpus.task,
        criterion=corpus.criterion,
        kind="tagging",
        columns=("words", "predicate", "tags"),
        tests=tests,
        features=100,
        tiny="--predicate-embed-dim 12 --encoder-layers 2 --lstm-layers 1",
        licensed=not corpus.alternatives,
    )


NEWS = tuple(
    Dataset(
        name=corpus.name,
        classes=0,
        metrics=corpus.metrics,
        task=corpus.task,
        criterion=corpus.criterion,
        kind="recommendation",
        columns=("history", "candidates", "labels"),
        tiny="--pooling-dim 12",
        licensed=True,
    )
    for corpus in RECOMMENDATION.values()
)
ROLES = tuple(map(_roles, TAGGING.values()))
DATASETS = {name: _dataset(corpus) for name, corpus in CLASSIFICATION.items()}
