"""All classifiers side by side with the same training; the settings are no paper's."""

from fairseq_posattn.recipes.datasets import DATASETS
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Row, Training

# Scaling GloVe's long vectors costs the Transformer five points on TREC.
_FLAGS = (
    "--optimizer adam --lr {} --lr-scheduler fixed --clip-norm 5 --patience 3"
    " --embedding-scale none"
)
# --cnn-widths 3,5 divides any even number of features.
_SIZE = (
    "--encoder-hidden-dim 0 --encoder-attention-heads 2 --encoder-ffn-embed-dim 200 --head-dim 50"
    " --cnn-widths 3,5"
)
_MODELS = ["mpsan", "mtsa", "cspan", "da_transformer", "dman", "transformer", "rpr", "gaussian"]
_MODELS += ["transformer_xl", "tener", "disan", "bi_blosan", "multi_head", "bilstm", "bigru"]
_MODELS += ["lstm", "cnn", "hierarchical_cnn", "swem"]
_ROWS = (
    *(Row(model, flags=f"--arch {model}_classifier") for model in _MODELS),
    # Measures the contribution of the word order.
    Row(
        "transformer_without_positions",
        flags="--arch transformer_classifier --no-token-positional-embeddings",
    ),
)
_EXTRA_FLAGS = {"amazon_electronics": " --hierarchical", "sick": " --pair-features distance"}


def _training(flags: str) -> dict[str, Training]:
    """Return the training by data set: one seed of ten folds; SICK is learned slowly."""
    return {
        name: Training(
            flags + _EXTRA_FLAGS.get(name, ""),
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
The papers' models and their baselines, each with the size and dropout of its architecture
(training/presets.py), with the same training: Adam, learning rate 1e-3, batches of
64, at most 15 epochs (SICK: 30), early stopping after 3 epochs without improvement, unscaled word
vectors (--embedding-scale none). The settings are no paper's, so there are no paper's numbers.""",
        datasets=tuple(DATASETS.values()),
        training=_training(_FLAGS.format("1e-3")),
        regime="compare",
        rows=_ROWS,
    ),
    ClassificationRecipe(
        "classifiers/compare_small",
        title="All classifiers side by side, as small as each other",
        about="""\
As classifiers/compare, with learning rate 3e-3 and smaller models that a CPU trains in minutes.
Every encoder has as many features as a word vector (disan twice as many), 2 attention heads, 200
features in feed-forward sublayers and a classification layer of 50. The models differ in their
mechanism more than in their size.""",
        datasets=tuple(DATASETS.values()),
        training=_training(f"{_FLAGS.format('3e-3')} {_SIZE}"),
        regime="compare_small",
        rows=_ROWS,
    ),
)
