"""DA-Transformer (Wu et al. 2021): classification, ratings, news, and its choices on translation.

On classification the settings are the paper's (section 4.1); Amazon's reviews are encoded by words,
sentences and document. It names no dropout (here: the architectures'), batch size (64), number of
epochs (10) or maximum length (512 words). On news it refers to NRMS (Wu et al. 2019): batches of 30
clicks, 2 epochs, the first 30 words of a title and the last 50 clicks. Guesses: w is initialized
from N(0, 0.1^2), v to 0, and the threshold of the mapping `clip` is 1 (--da-clip-threshold).

The paper has no translation. There the sizes are those of fairseq's transformer_iwslt_de_en, with
the settings that fairseq documents for it, the same for all rows.
"""

from dataclasses import replace

from fairseq_posattn.recipes.datasets import NEWS, datasets
from fairseq_posattn.recipes.papers.dman_tables import IWSLT14
from fairseq_posattn.recipes.recipe import (
    ClassificationRecipe,
    GenerationRecipe,
    Recipe,
    Row,
    Training,
    rows,
)

_ADAM = "--optimizer adam --lr-scheduler fixed --lr 1e-3"
TRAINING = {
    **dict.fromkeys(("ag_news", "sst2", "snli"), Training(_ADAM, epochs=10)),
    "amazon_electronics": Training(f"{_ADAM} --hierarchical", epochs=10),
    **{dataset.name: Training(_ADAM, batch_size=30, epochs=2) for dataset in NEWS},
}
_SCORES = ("accuracy", "macro_f1")
_DOCUMENTS = datasets("ag_news", "amazon_electronics", metrics=_SCORES)
_RATINGS = tuple(
    replace(reviews, classes=1, criterion="rating_regression")
    for reviews in datasets("amazon_electronics", metrics=("rmse", "mae"))
)
_TRANSLATION = replace(
    IWSLT14,
    training="--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --weight-decay 1e-4"
    " --lr-scheduler inverse_sqrt --lr 5e-4 --warmup-updates 4000 --dropout 0.3",
    max_tokens=4096,
    batches=1,
    max_epoch=0,
    max_update=50000,
    checkpoint="average",
)


def _transformers(numbers: str, kind: str = "classifier") -> tuple[Row, ...]:
    """Return the rows of the paper's models; a line has the numbers of each."""
    models = {
        "Transformer": "transformer",
        "Transformer-RPR": "rpr",
        "Transformer-XL": "transformer_xl",
        "Adapted Transformer": "tener",
        "DA-Transformer": "da_transformer",
    }
    return tuple(
        Row(name, paper.strip(), f"--arch {arch}_{kind}")
        for (name, arch), paper in zip(models.items(), numbers.strip().splitlines(), strict=True)
    )


def _study(
    figure: int, section: str, suffix: str, title: str, about: str, flag: str, values: str
) -> tuple[Recipe, ...]:
    """Return the recipes of a figure: on classification, on news and on translation.

    Args:
        figure, section: of the paper.
        suffix: last part of the name of the recipe on translation.
        title: of the table, without its data.
        about: what the paper shows.
        flag, values: flag of fairseq-train, and its values, a row each.
    """

    def rows_of(arch: str) -> tuple[Row, ...]:
        return tuple(Row(value, flags=f"--arch {arch} {flag} {value}") for value in values.split())

    name, heading = f"da_transformer/figure{figure}_", f"DA-Transformer, Figure {figure}"
    return (
        ClassificationRecipe(
            f"{name}classification",
            f"{heading}: {title} (AG News, Amazon)",
            about,
            rows_of("da_transformer_classifier"),
            _DOCUMENTS,
            TRAINING,
        ),
        ClassificationRecipe(
            f"{name}news",
            f"{heading}: {title} (MIND)",
            f"{about} Data and training are those of table5_mind.",
            rows_of("da_transformer_recommender"),
            NEWS,
            TRAINING,
            "news",
        ),
        GenerationRecipe(
            f"{name}{suffix}",
            f"{heading} on translation: {title} (IWSLT14)",
            f"""\
An analogous study: the paper's (section {section}) is on classification. DA is in the encoder,
which has no position embeddings. German to English, tokenised, case-insensitive BLEU. {about}""",
            rows("Transformer | | transformer_iwslt_de_en") + rows_of("da_transformer_iwslt_de_en"),
            _TRANSLATION,
        ),
    )


RECIPES = (
    ClassificationRecipe(
        "da_transformer/figure3_ratings",
        "DA-Transformer, Figure 3: the ratings of Amazon's reviews of electronics as numbers",
        """\
Root mean squared error and mean absolute error; lower is better. The paper's are in a figure
without numbers: DA-Transformer's are the lowest, Transformer's the highest.""",
        _transformers("-\n-\n-\n-\n-"),
        _RATINGS,
        TRAINING,
        "ratings",
    ),
    *_study(
        4,
        "4.3",
        "mapping",
        "mappings of the distance",
        """\
The paper's numbers are in a figure: the learnable sigmoid is better than the sigmoid, both are
better than the exponential, and clip and linear are worst. The initial w and v, and the threshold 1
of clip, are guesses.""",
        "--da-mapping",
        "clip linear exponential sigmoid learnable_sigmoid",
    ),
    *_study(
        5,
        "4.4",
        "adjustment",
        "adjustments of attention",
        """\
The paper's numbers are in a figure: early is better than late, and multiplying is better than
adding.""",
        "--da-adjustment",
        "late_add late_multiply early_add early_multiply",
    ),
    ClassificationRecipe(
        "da_transformer/table3_documents",
        "DA-Transformer, Table 3: AG News and the ratings of Amazon's reviews of electronics",
        "Accuracy and macro-F1 on the test sets. The paper does not specify its 50,000 reviews.",
        _transformers("""
            93.01±0.13 93.00±0.13 65.15±0.40 42.14±0.41
            93.14±0.12 93.13±0.13 65.29±0.38 42.40±0.40
            93.35±0.10 93.34±0.11 65.50±0.40 42.88±0.43
            93.28±0.13 93.27±0.14 65.47±0.39 42.69±0.42
            93.72±0.11 93.70±0.12 66.38±0.39 44.29±0.40"""),
        _DOCUMENTS,
        TRAINING,
    ),
    ClassificationRecipe(
        "da_transformer/table4_sst_snli",
        "DA-Transformer, Table 4: SST with two classes, and SNLI",
        """\
Accuracy and macro-F1 on the test sets. SST is trained on sentences only, as the paper's 8k examples
imply; training on phrases gives other numbers. SNLI's sentences are encoded separately, which the
paper does not specify. Its statistics of SNLI (55k training pairs, two classes) are not those of
the data set, which is complete here.""",
        _transformers("""
            89.67±0.22 89.59±0.24 81.45±0.30 81.42±0.31
            89.94±0.19 89.90±0.20 82.20±0.31 82.18±0.31
            90.06±0.20 90.02±0.21 83.19±0.29 83.15±0.30
            90.15±0.19 90.10±0.1 82.35±0.28 82.31±0.30
            90.49±0.17 90.43±0.19 84.18±0.27 84.16±0.29"""),
        datasets("sst2", "snli", metrics=_SCORES),
        TRAINING,
    ),
    ClassificationRecipe(
        "da_transformer/table5_mind",
        "DA-Transformer, Table 5: news recommendation (MIND)",
        """\
The mechanism is applied to the words of a title and to the news that a user clicked. Percentages,
means of five runs. MIND's published test set has no labels. Here its development set is the test
set, and the last day of the training set is for validation. The paper's test set is another one, so
its numbers are comparable only with each other. NRMS is plain attention, without numbers in the
paper; Popularity ranks news by their clicks in the training set. MIND cannot be redistributed:
`posattn prepare recommendation mind --source FOLDER` prepares your copy.""",
        (
            *_transformers(
                """
                67.76±0.18 33.05±0.16 35.94±0.19 41.63±0.20
                67.81±0.16 33.10±0.17 35.98±0.20 41.65±0.21
                67.92±0.16 33.15±0.16 36.04±0.20 41.70±0.19
                67.70±0.22 33.01±0.20 35.89±0.17 41.58±0.23
                68.32±0.15 33.36±0.16 36.34±0.14 42.07±0.17""",
                "recommender",
            ),
            Row("NRMS", flags="--arch nrms_recommender"),
            Row("Popularity", baseline="popularity"),
        ),
        NEWS,
        TRAINING,
        "news",
    ),
)
