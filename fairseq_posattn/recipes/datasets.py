"""The data sets of the recipes on classification, from what each says of itself."""

from fairseq_posattn.preparation.corpora import CLASSIFICATION
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.pipeline.folds import FOLDS
from fairseq_posattn.recipes.recipe import Dataset

# The papers learn SST's five classes of phrases, too.
PREPARATION = {"sst5": "--phrases"}


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
    )


DATASETS = {name: _dataset(corpus) for name, corpus in CLASSIFICATION.items()}


def datasets(*names: str) -> tuple[Dataset, ...]:
    """Those of these names; all of them if there are none."""
    return tuple(DATASETS[name] for name in names or DATASETS)
