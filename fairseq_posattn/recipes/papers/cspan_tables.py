"""Cascaded semantic and positional self-attention (Jiang et al. 2020): documents.

The settings are the paper's (section 3.2): Adam, learning rate 1e-3, a tenth of it after 20 epochs
and a hundredth after 25, weight decay 1e-4, batches of 64, 30 epochs, GloVe of 300 features. The
big model trains for 60 epochs, presumably with the rate lowered at twice the epochs. The paper
names no dropout (here: cspan_classifier's) and no maximum length (here: 512 words). A tenth of the
training set is held out for validation.

The weight decay is read as that of PyTorch's Adam: it is added to the gradient of all parameters,
word vectors and biases included, `--l2 1e-4 --l2-all`. fairseq's --weight-decay is decoupled: 1e-4
would subtract 1e-7 of a weight in an update.
"""

from dataclasses import replace

from fairseq_posattn.recipes.datasets import datasets
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Row, Training


def _training(epochs: int) -> Training:
    """Return the training with the rate lowered after 2/3 and after 5/6 of the epochs."""
    first, second = epochs * 2 // 3, epochs * 5 // 6
    rates = ["1e-3"] * first + ["1e-4"] * (second - first) + ["1e-5"]
    flags = f"--optimizer adam --l2 1e-4 --l2-all --lr-scheduler fixed --lr {','.join(rates)}"
    return Training(flags, epochs=epochs, seeds=1)


_BASE = "--arch cspan_classifier"
_FASTTEXT = "--arch fasttext_classifier --encoder-embed-dim 10 --encoder-embed-path ''"
TRAINING = dict.fromkeys(
    ("ag_news", "yelp_polarity", "yelp_full", "yahoo_answers"), _training(epochs=30)
)


def _size(layers: int, queries: int, paper: str) -> Row:
    flags = f"{_BASE} --lstm-layers {layers} --pooling-queries {queries}"
    return Row(f"{layers} layers, {queries} queries", paper, flags)


RECIPES = (
    ClassificationRecipe(
        "cspan/table2_documents",
        title="CSPAN, Table 2: classification of documents",
        about="""\
The paper's numbers of the other models are from other papers; its table also has models that are
not here (other CNNs, SASEM, LEAM, HLAN). The baselines follow their own papers: LSTM (Zhang et al.,
2015), mean of 512 features; FastText (Joulin et al., 2017), mean of words and bigrams of 10
features without GloVe; HAN (Yang et al., 2016), GRUs and a query over words and over sentences,
which end at full stops, exclamation and question marks; SWEM (Shen et al., 2018), mean and maximum
of the words. Training is CSPAN's.""",
        datasets=datasets(*TRAINING),
        training=TRAINING,
        rows=(
            Row("LSTM", "86.06 94.74 58.17 70.84", "--arch lstm_classifier"),
            Row("FastText", "92.50 95.70 63.90 72.30", _FASTTEXT),
            Row("HAN", "92.36 95.59 63.32 75.80", "--arch han_classifier"),
            Row("DiSAN", "92.51 94.39 62.08 76.15", "--arch disan_classifier"),
            Row("SWEM", "92.24 93.76 61.11 73.53", "--arch swem_classifier"),
            Row("CSPAN (base)", "93.68 96.11 65.93 77.61", _BASE),
            Row(
                "CSPAN (big)",
                "93.62 96.18 65.95 77.75",
                "--arch cspan_big_classifier",
                training=_training(epochs=60),
            ),
        ),
    ),
    ClassificationRecipe(
        "cspan/table3_components",
        title="CSPAN, Table 3: its components, one after the other (AG News)",
        about="""\
The first three models are pooled with one query; the paper does not specify the Bi-LSTM's pooling.
The third is the model with one query of Table 4, where the paper has another accuracy, 92.84.""",
        datasets=datasets("ag_news"),
        training=TRAINING,
        rows=(
            Row("Bi-LSTM", "89.36", f"{_BASE} --encoder bilstm --pooling-queries 1"),
            Row("+ self-att", "92.61", f"{_BASE} --cspan-no-residual --pooling-queries 1"),
            Row("+ residual", "93.03", f"{_BASE} --pooling-queries 1"),
            Row("+ multi-query", "93.68", _BASE),
        ),
    ),
    ClassificationRecipe(
        "cspan/table4_sizes",
        title="CSPAN, Table 4: layers of the Bi-LSTM and queries of the pooling (AG News)",
        about="""\
All rows train as many epochs as the base model. The paper does not define its memory in MB. Ours is
that of the encoder and the pooling, forward and backward, on 64 generated sentences of 64 words,
without parameters: compare rows with each other, not with the paper.""",
        datasets=tuple(
            replace(ag_news, metrics=("accuracy", "memory_mb")) for ag_news in datasets("ag_news")
        ),
        training=TRAINING,
        rows=(
            _size(1, 1, "92.84 1557"),
            _size(1, 8, "92.95 1641"),
            _size(1, 16, "93.68 1739"),
            _size(2, 8, "93.05 1665"),
            _size(2, 16, "92.88 1765"),
            _size(2, 32, "93.04 1961"),
            _size(3, 32, "92.92 1997"),
            _size(3, 64, "92.71 2401"),
            _size(3, 128, "93.14 3201"),
        ),
    ),
    ClassificationRecipe(
        "cspan/table5_fusion",
        title="CSPAN, Table 5: how meanings and positions meet (AG News)",
        about="""\
Row names are the paper's, see its Figure 2. (d) adds the Bi-LSTM's states to the self-attention
unchanged, as that figure shows. `--rows "(d) + Bi-LSTM" -- --cspan-fusion parallel` applies
self-attention to them first, as (e) does.""",
        datasets=datasets("ag_news"),
        training=TRAINING,
        rows=(
            Row("(a) embedding", "92.38", f"{_BASE} --cspan-fusion none"),
            Row("(b) + position", "92.71", f"{_BASE} --cspan-fusion position"),
            Row("(c) + relative-position", "92.39", f"{_BASE} --cspan-fusion relative_position"),
            Row("(d) + Bi-LSTM", "93.03", f"{_BASE} --cspan-fusion parallel_lstm"),
            Row("(e) // Bi-LSTM", "93.68", _BASE),  # cascaded
        ),
    ),
)
