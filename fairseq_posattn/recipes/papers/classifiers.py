"""All classifiers side by side, trained alike; these settings are no paper's."""

from fairseq_posattn.recipes.datasets import DATASETS, datasets
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Row, Training

# GloVe's vectors are long as they are: scaled, they cost the Transformer five points on TREC.
_FLAGS = (
    "--optimizer adam --lr {} --lr-scheduler fixed --clip-norm 5 --patience 3"
    " --embedding-scale none"
)
# --cnn-widths, because any even number of features is divided by these.
_SIZE = (
    "--encoder-hidden-dim 0 --encoder-attention-heads 2 --encoder-ffn-embed-dim 200 --head-dim 50"
    " --cnn-widths 3,5"
)
_MODELS = ["mpsan", "mtsa", "cspan", "da_transformer", "dman", "transformer", "rpr", "gaussian"]
_MODELS += ["transformer_xl", "tener", "disan", "bi_blosan", "multi_head", "bilstm", "bigru"]
_MODELS += ["lstm", "cnn", "hierarchical_cnn", "swem"]
_ROWS = (
    *(Row(model, flags=f"--arch {model}_classifier") for model in _MODELS),
    # What the order of words is worth.
    Row(
        "transformer_without_positions",
        flags="--arch transformer_classifier --no-token-positional-embeddings",
    ),
)
_OWN = {"amazon_electronics": " --hierarchical", "sick": " --pair-features distance"}


def _training(flags: str) -> dict[str, Training]:
    """Ten folds are runs enough; SICK has the fewest updates in an epoch, and is learned slowly."""
    return {
        name: Training(
            flags + _OWN.get(name, ""),
            epochs=30 if name == "sick" else 15,
            seeds=1 if dataset.folds else 3,
        )
        for name, dataset in DATASETS.items()
    }


RECIPES = (
    ClassificationRecipe(
        "classifiers/compare",
        title="All classifiers side by side, each of its own size",
        about="""\
The models of the papers and those that they compare with, each with its own size and dropout
(training/architectures/classifier.py), trained alike: Adam, learning rate 1e-3, batches of 64, at
most 15 epochs (SICK: 30), no longer than 3 without a better validation, word vectors as they are
(--embedding-scale none). The settings are no paper's, so there are no paper's numbers.""",
        datasets=datasets(),
        training=_training(_FLAGS.format("1e-3")),
        regime="compare",
        rows=_ROWS,
    ),
    ClassificationRecipe(
        "classifiers/compare_small",
        title="All classifiers side by side, as small as each other",
        about="""\
As classifiers/compare, but every encoder has as many features as a word vector (disan twice as
many), 2 heads if it has heads, 200 features within a feed-forward sublayer, and every head a
layer of 50, and the learning rate is 3e-3: models that a CPU trains in minutes, and that differ in
their mechanism more than in their size.""",
        datasets=datasets(),
        training=_training(f"{_FLAGS.format('3e-3')} {_SIZE}"),
        regime="compare_small",
        rows=_ROWS,
    ),
)
