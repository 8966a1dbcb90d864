"""All classifiers side by side with the same training; the settings are no paper's."""

from fairseq_posattn.recipes.datasets import DATASETS
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Row, Training

_MODELS = """
    mpsan mtsa cspan da_transformer dman transformer rpr gaussian transformer_xl tener disan
    bi_blosan multi_head bilstm bigru lstm cnn hierarchical_cnn swem"""
# The last row measures the contribution of the word order.
_UNORDERED = "--arch transformer_classifier --no-token-positional-embeddings"
_ROWS = (
    *(Row(model, flags=f"--arch {model}_classifier") for model in _MODELS.split()),
    Row("transformer_without_positions", flags=_UNORDERED),
)
# --cnn-widths 3,5 divides any even number of features.
_SIZE = (
    "--encoder-hidden-dim 0 --encoder-attention-heads 2 --encoder-ffn-embed-dim 200 --head-dim 50"
    " --cnn-widths 3,5"
)
_EXTRA_FLAGS = {"amazon_electronics": "--hierarchical", "sick": "--pair-features distance"}


def _recipe(name: str, size: str, about: str, rate: str, flags: str = "") -> ClassificationRecipe:
    """Return a recipe; it has one seed of ten folds, and SICK is learned slowly."""
    # Scaling GloVe's long vectors costs the Transformer five points on TREC.
    shared = (
        f"--optimizer adam --lr {rate} --lr-scheduler fixed --clip-norm 5 --patience 3"
        f" --embedding-scale none {flags}"
    )
    training = {
        dataset: Training(
            f"{shared} {_EXTRA_FLAGS.get(dataset, '')}",
            epochs=30 if dataset == "sick" else 15,
            seeds=1 if description.folds else 3,
        )
        for dataset, description in DATASETS.items()
    }
    title = f"All classifiers, {size}"
    datasets = tuple(DATASETS.values())
    return ClassificationRecipe(
        f"classifiers/{name}", title, about, _ROWS, datasets, training, name
    )


RECIPES = (
    _recipe(
        "compare",
        "standard sizes",
        """\
The papers' models and their baselines, each with the size and dropout of its architecture
(training/presets.yaml), with the same training: Adam, learning rate 1e-3, batches of
64, at most 15 epochs (SICK: 30), early stopping after 3 epochs without improvement, unscaled word
vectors (--embedding-scale none). The settings are no paper's, so there are no paper's numbers.""",
        "1e-3",
    ),
    _recipe(
        "compare_small",
        "small models",
        """\
As classifiers/compare, with learning rate 3e-3 and smaller models that a CPU trains in minutes.
Every encoder has as many features as a word vector (disan twice as many), 2 attention heads, 200
features in feed-forward sublayers and a classification layer of 50. The models differ in their
mechanism more than in their size.""",
        "3e-3",
        _SIZE,
    ),
)
