"""Cascaded semantic and positional self-attention (Jiang et al. 2020): documents.

The settings are the paper's (section 3.2). It names no dropout (here: cspan_classifier's) and no
maximum length (here: 512 words). Its weight decay is read as that of PyTorch's Adam, which is added
to the gradient of all parameters: --l2 1e-4 --l2-all; fairseq's --weight-decay is decoupled. A
tenth of the training set is held out for validation.
"""

from fairseq_posattn.recipes.datasets import datasets
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Row, Training, rows


def _training(epochs: int) -> Training:
    """Return the training with a tenth of the rate after 2/3 of the epochs and after 5/6."""
    first, second = epochs * 2 // 3, epochs * 5 // 6
    rates = ["1e-3"] * first + ["1e-4"] * (second - first) + ["1e-5"]
    flags = f"--optimizer adam --l2 1e-4 --l2-all --lr-scheduler fixed --lr {','.join(rates)}"
    return Training(flags, epochs=epochs, seeds=1)


_BIG = "--arch cspan_big_classifier"
_DOCUMENTS = ("ag_news", "yelp_polarity", "yelp_full", "yahoo_answers")
TRAINING = dict.fromkeys(_DOCUMENTS, _training(epochs=30))
_SIZES = """
    1 1 92.84 1557
    1 8 92.95 1641
    1 16 93.68 1739
    2 8 93.05 1665
    2 16 92.88 1765
    2 32 93.04 1961
    3 32 92.92 1997
    3 64 92.71 2401
    3 128 93.14 3201
"""  # layers, queries, accuracy, MB


def _sizes() -> tuple[Row, ...]:
    lines = []
    for line in _SIZES.strip().splitlines():
        layers, queries, *paper = line.split()
        flags = f"cspan_classifier --lstm-layers {layers} --pooling-queries {queries}"
        lines.append(f"{layers} layers, {queries} queries | {' '.join(paper)} | {flags}")
    return rows("\n".join(lines))


RECIPES = (
    ClassificationRecipe(
        "cspan/table2_documents",
        "CSPAN, Table 2: classification of documents",
        """\
The paper's numbers of the other models are from other papers; its table also has models that are
not here (other CNNs, SASEM, LEAM, HLAN). The baselines follow their own papers: LSTM (Zhang et al.,
2015), mean of 512 features; FastText (Joulin et al., 2017), mean of words and bigrams of 10
features without GloVe; HAN (Yang et al., 2016), GRUs and a query over words and over sentences,
which end at full stops, exclamation and question marks; SWEM (Shen et al., 2018), mean and maximum
of the words. Training is CSPAN's; the big model trains for 60 epochs, with the rate lowered at
twice the epochs.""",
        rows("""
            LSTM         | 86.06 94.74 58.17 70.84 | lstm_classifier
            FastText     | 92.50 95.70 63.90 72.30 | fasttext_classifier \
--encoder-embed-dim 10 --encoder-embed-path ''
            HAN          | 92.36 95.59 63.32 75.80 | han_classifier
            DiSAN        | 92.51 94.39 62.08 76.15 | disan_classifier
            SWEM         | 92.24 93.76 61.11 73.53 | swem_classifier
            CSPAN (base) | 93.68 96.11 65.93 77.61 | cspan_classifier""")
        + (Row("CSPAN (big)", "93.62 96.18 65.95 77.75", _BIG, _training(epochs=60)),),
        datasets(*_DOCUMENTS),
        TRAINING,
    ),
    ClassificationRecipe(
        "cspan/table3_components",
        "CSPAN, Table 3: its components, one after the other (AG News)",
        """\
The first three models are pooled with one query; the paper does not specify the Bi-LSTM's pooling.
The third is the model with one query of Table 4, where the paper has another accuracy, 92.84.""",
        rows("""
            Bi-LSTM       | 89.36 | cspan_classifier --encoder bilstm --pooling-queries 1
            + self-att    | 92.61 | cspan_classifier --cspan-no-residual --pooling-queries 1
            + residual    | 93.03 | cspan_classifier --pooling-queries 1
            + multi-query | 93.68 | cspan_classifier"""),
        datasets("ag_news"),
        TRAINING,
    ),
    ClassificationRecipe(
        "cspan/table4_sizes",
        "CSPAN, Table 4: layers of the Bi-LSTM and queries of the pooling (AG News)",
        """\
All rows train as many epochs as the base model. The paper does not define its memory in MB. Ours is
that of the encoder and the pooling, forward and backward, on 64 generated sentences of 64 words,
without parameters: compare rows with each other, not with the paper.""",
        _sizes(),
        datasets("ag_news", metrics=("accuracy", "memory_mb")),
        TRAINING,
    ),
    ClassificationRecipe(
        "cspan/table5_fusion",
        "CSPAN, Table 5: how meanings and positions meet (AG News)",
        """\
Row names are the paper's, see its Figure 2. (d) adds the Bi-LSTM's states to the self-attention
unchanged, as that figure shows. `--rows "(d) + Bi-LSTM" -- --cspan-fusion parallel` applies
self-attention to them first, as (e) does.""",
        rows("""
            (a) embedding           | 92.38 | cspan_classifier --cspan-fusion none
            (b) + position          | 92.71 | cspan_classifier --cspan-fusion position
            (c) + relative-position | 92.39 | cspan_classifier --cspan-fusion relative_position
            (d) + Bi-LSTM           | 93.03 | cspan_classifier --cspan-fusion parallel_lstm
            (e) // Bi-LSTM          | 93.68 | cspan_classifier"""),  # (e) is cascaded
        datasets("ag_news"),
        TRAINING,
    ),
)
