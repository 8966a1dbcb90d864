"""DA-Transformer (Wu et al. 2021): classification, ratings, news, and its choices on translation.

On classification the settings are the paper's (section 4.1): Adam, learning rate 1e-3, GloVe of
300 features, one layer of 16 heads of 16 features, means of five runs; Amazon's reviews are encoded
by words, sentences and document. It names no dropout (here: the architectures'), batch size (64),
number of epochs (10) or maximum length (512 words).

On news (Table 5) it refers to NRMS (Wu et al. 2019) for other settings: Adam, 1e-3, batches of 30
clicks, 2 epochs, the first 30 words of a title and the last 50 clicks.

Guesses, because the paper does not specify them: w is initialized from N(0, 0.1^2), v to 0, and the
threshold of the mapping `clip` is 1 (--da-clip-threshold).

The paper has no translation. There the sizes are those of fairseq's transformer_iwslt_de_en, with
the settings that fairseq documents for it, the same for all rows.
"""

from dataclasses import replace

from fairseq_posattn.recipes.datasets import NEWS, datasets
from fairseq_posattn.recipes.recipe import (
    ClassificationRecipe,
    Dataset,
    Generation,
    GenerationRecipe,
    Row,
    Training,
)

MAPPINGS = ("clip", "linear", "exponential", "sigmoid", "learnable_sigmoid")
ADJUSTMENTS = ("late_add", "late_multiply", "early_add", "early_multiply")

# --- Classification ----------------------------------------------------------------------------

_SENTENCES = Training("--optimizer adam --lr-scheduler fixed --lr 1e-3", epochs=10)
_REVIEWS = replace(_SENTENCES, flags=f"{_SENTENCES.flags} --hierarchical")
TRAINING = {
    "ag_news": _SENTENCES,
    "sst2": _SENTENCES,
    "snli": _SENTENCES,
    "amazon_electronics": _REVIEWS,
}
_CLICKS = Training("--optimizer adam --lr-scheduler fixed --lr 1e-3", batch_size=30, epochs=2)
_NEWS = {dataset.name: _CLICKS for dataset in NEWS}
_DA = "--arch da_transformer_classifier"


def _datasets(*names: str) -> tuple[Dataset, ...]:
    """Return data sets with accuracy and macro-F1, as in the paper."""
    return tuple(replace(dataset, metrics=("accuracy", "macro_f1")) for dataset in datasets(*names))


def _ratings() -> tuple[Dataset, ...]:
    """Return the reviews with their ratings as numbers."""
    (reviews,) = datasets("amazon_electronics")
    return (replace(reviews, classes=1, criterion="rating_regression", metrics=("rmse", "mae")),)


def _transformers(*papers: str, kind: str = "classifier") -> tuple[Row, ...]:
    """Return the rows of the paper's models, with its numbers of each."""
    names = {
        "Transformer": "transformer",
        "Transformer-RPR": "rpr",
        "Transformer-XL": "transformer_xl",
        "Adapted Transformer": "tener",
        "DA-Transformer": "da_transformer",
    }
    return tuple(
        Row(name, paper, f"--arch {arch}_{kind}")
        for (name, arch), paper in zip(names.items(), papers, strict=True)
    )


# --- News --------------------------------------------------------------------------------------


def _on_news(
    name: str, title: str, about: str, option: str, values: tuple[str, ...]
) -> ClassificationRecipe:
    rows = tuple(
        Row(value, flags=f"--arch da_transformer_recommender {option} {value}") for value in values
    )
    return ClassificationRecipe(
        name, title, about, rows, datasets=NEWS, training=_NEWS, regime="news"
    )


# --- Translation -------------------------------------------------------------------------------

_IWSLT14 = Generation(
    regime="iwslt14",
    corpus="iwslt14",
    preparation="translation iwslt14",
    source="de",
    target="en",
    training=(
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
        " --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --weight-decay 1e-4"
        " --lr-scheduler inverse_sqrt --lr 5e-4 --warmup-updates 4000 --dropout 0.3"
    ),
    max_tokens=4096,
    batches=1,
    max_update=50000,
    checkpoint="average",
    decoding="--beam 5 --lenpen 1.0",
    scoring="bleu --forms tokenised-lowercase tokenised sacrebleu --detokenize en",
    metrics=("bleu",),
    metric="tokenised, case-insensitive BLEU",
)


def _on_translation(option: str, values: tuple[str, ...]) -> tuple[Row, ...]:
    return (
        Row("Transformer", flags="--arch transformer_iwslt_de_en"),
        *(
            Row(value, flags=f"--arch da_transformer_iwslt_de_en {option} {value}")
            for value in values
        ),
    )


# --- The tables --------------------------------------------------------------------------------

_FIGURE4 = """\
The paper's numbers are in a figure: the learnable sigmoid is better than the sigmoid, both are
better than the exponential, and clip and linear are worst. The initial w and v, and the threshold 1
of clip, are guesses."""
_FIGURE5 = """\
The paper's numbers are in a figure: early is better than late, and multiplying is better than
adding."""
_AS_TABLE5 = " Data and training are those of table5_mind."
_ON_TRANSLATION = """\
An analogous study: the paper's (section {}) is on classification. DA is in the encoder, which has
no position embeddings. German to English, tokenised, case-insensitive BLEU. """

RECIPES = (
    ClassificationRecipe(
        "da_transformer/figure3_ratings",
        title="DA-Transformer, Figure 3: the ratings of Amazon's reviews of electronics as numbers",
        about="""\
Root mean squared error and mean absolute error; lower is better. The paper's are in a figure
without numbers: DA-Transformer's are the lowest, Transformer's the highest.""",
        datasets=_ratings(),
        training=TRAINING,
        regime="ratings",
        rows=_transformers("-", "-", "-", "-", "-"),
    ),
    ClassificationRecipe(
        "da_transformer/figure4_classification",
        title="DA-Transformer, Figure 4: mappings of the distance (AG News, Amazon)",
        about=_FIGURE4,
        datasets=_datasets("ag_news", "amazon_electronics"),
        training=TRAINING,
        rows=tuple(Row(mapping, flags=f"{_DA} --da-mapping {mapping}") for mapping in MAPPINGS),
    ),
    _on_news(
        "da_transformer/figure4_news",
        title="DA-Transformer, Figure 4: mappings of the distance (MIND)",
        about=_FIGURE4 + _AS_TABLE5,
        option="--da-mapping",
        values=MAPPINGS,
    ),
    GenerationRecipe(
        "da_transformer/figure4_mapping",
        title="DA-Transformer, Figure 4 on translation: mappings of the distance (IWSLT14)",
        about=_ON_TRANSLATION.format("4.3") + _FIGURE4,
        settings=_IWSLT14,
        rows=_on_translation("--da-mapping", MAPPINGS),
    ),
    GenerationRecipe(
        "da_transformer/figure5_adjustment",
        title="DA-Transformer, Figure 5 on translation: adjustments of attention (IWSLT14)",
        about=_ON_TRANSLATION.format("4.4") + _FIGURE5,
        settings=_IWSLT14,
        rows=_on_translation("--da-adjustment", ADJUSTMENTS),
    ),
    ClassificationRecipe(
        "da_transformer/figure5_classification",
        title="DA-Transformer, Figure 5: adjustments of attention (AG News, Amazon)",
        about=_FIGURE5,
        datasets=_datasets("ag_news", "amazon_electronics"),
        training=TRAINING,
        rows=tuple(
            Row(adjustment, flags=f"{_DA} --da-adjustment {adjustment}")
            for adjustment in ADJUSTMENTS
        ),
    ),
    _on_news(
        "da_transformer/figure5_news",
        title="DA-Transformer, Figure 5: adjustments of attention (MIND)",
        about=_FIGURE5 + _AS_TABLE5,
        option="--da-adjustment",
        values=ADJUSTMENTS,
    ),
    ClassificationRecipe(
        "da_transformer/table3_documents",
        title="DA-Transformer, Table 3: AG News and the ratings of Amazon's reviews of electronics",
        about="""\
Accuracy and macro-F1 on the test sets. The paper does not specify its 50,000 reviews.""",
        datasets=_datasets("ag_news", "amazon_electronics"),
        training=TRAINING,
        rows=_transformers(
            "93.01±0.13 93.00±0.13 65.15±0.40 42.14±0.41",
            "93.14±0.12 93.13±0.13 65.29±0.38 42.40±0.40",
            "93.35±0.10 93.34±0.11 65.50±0.40 42.88±0.43",
            "93.28±0.13 93.27±0.14 65.47±0.39 42.69±0.42",
            "93.72±0.11 93.70±0.12 66.38±0.39 44.29±0.40",
        ),
    ),
    ClassificationRecipe(
        "da_transformer/table4_sst_snli",
        title="DA-Transformer, Table 4: SST with two classes, and SNLI",
        about="""\
Accuracy and macro-F1 on the test sets. SST is trained on sentences only, as the paper's 8k examples
imply; training on phrases gives other numbers. SNLI's sentences are encoded separately, which the
paper does not specify. Its statistics of SNLI (55k training pairs, two classes) are not those of
the data set, which is complete here.""",
        datasets=_datasets("sst2", "snli"),
        training=TRAINING,
        rows=_transformers(
            "89.67±0.22 89.59±0.24 81.45±0.30 81.42±0.31",
            "89.94±0.19 89.90±0.20 82.20±0.31 82.18±0.31",
            "90.06±0.20 90.02±0.21 83.19±0.29 83.15±0.30",
            "90.15±0.19 90.10±0.1 82.35±0.28 82.31±0.30",
            "90.49±0.17 90.43±0.19 84.18±0.27 84.16±0.29",
        ),
    ),
    ClassificationRecipe(
        "da_transformer/table5_mind",
        title="DA-Transformer, Table 5: news recommendation (MIND)",
        about="""\
The mechanism is applied to the words of a title and to the news that a user clicked. Percentages,
means of five runs. MIND's published test set has no labels. Here its development set is the test
set, and the last day of the training set is for validation. The paper's test set is another one, so
its numbers are comparable only with each other. NRMS is plain attention, without numbers in the
paper; Popularity ranks news by their clicks in the training set. MIND cannot be redistributed:
`posattn prepare recommendation mind --source FOLDER` prepares your copy.""",
        datasets=NEWS,
        training=_NEWS,
        regime="news",
        rows=_transformers(
            "67.76±0.18 33.05±0.16 35.94±0.19 41.63±0.20",
            "67.81±0.16 33.10±0.17 35.98±0.20 41.65±0.21",
            "67.92±0.16 33.15±0.16 36.04±0.20 41.70±0.19",
            "67.70±0.22 33.01±0.20 35.89±0.17 41.58±0.23",
            "68.32±0.15 33.36±0.16 36.34±0.14 42.07±0.17",
            kind="recommender",
        )
        + (
            Row("NRMS", flags="--arch nrms_recommender"),
            Row("Popularity", baseline="popularity"),
        ),
    ),
)
