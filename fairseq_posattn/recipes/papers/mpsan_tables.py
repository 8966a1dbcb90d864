"""Multiple positional self-attention (Dai et al. 2020): classification, relatedness.

The settings are the paper's ("Experiments and Results"): Adadelta, learning rate 0.5, L2 1e-7,
batches of 64, trained GloVe of 300 features; on SICK learning rate 0.7 and L2 5e-4. Its dropout
ratios, 0.7 and on SICK 0.55, are read as keep probabilities, as in the papers it builds on. rho and
epsilon are the defaults of its TensorFlow 1.4. Its dropouts "between the layers" precede every
linear layer, as in those papers' code.

The paper does not specify the length of training. On SST and TREC it is that of MTSA's paper, whose
settings are similar; elsewhere 20,000 updates, as in the published code of Bi-BloSAN on SICK. On
SICK's pairs the classifier reads |a - b| and a * b, as in Tai et al. (2015) and that code.
"""

from dataclasses import replace

from fairseq_posattn.recipes.datasets import datasets
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Dataset, Row, Training

CBOW = "--arch swem_classifier --pooling mean --head-dim 0"
MULTI_HEAD = "--arch multi_head_classifier"
BI_BLOSAN = "--arch bi_blosan_classifier"
ADADELTA = "--optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-8 --lr-scheduler fixed"
MAPS = "--dropout-places maps"

_FLAGS = f"{ADADELTA} --lr 0.5 --l2 1e-7 {MAPS} --dropout 0.3"
_FOLDED = Training(_FLAGS, updates=20000, interval=200, seeds=1)
TRAINING = {
    "sst5": Training(_FLAGS, updates=120000, interval=1000, seeds=10),
    "trec": Training(_FLAGS, updates=80000, interval=400),
    "cr": _FOLDED,
    "mpqa": _FOLDED,
    "subj": _FOLDED,
    "sick": Training(
        f"{_FLAGS} --lr 0.7 --l2 5e-4 --dropout 0.45 --pair-features distance",
        updates=20000,
        interval=200,
    ),
}
_MPSAN = "--arch mpsan_classifier"
_BOTH_DIRECTIONS = f"{_MPSAN} --mpsan-masks past,future"


def _sst() -> tuple[Dataset, ...]:
    """Return SST with the columns of parameters and seconds an epoch of Tables 1 and 3 to 5."""
    (sst,) = datasets("sst5")
    return (replace(sst, metrics=("accuracy", "parameters_m", "epoch_s")),)


def _masks(*units: str) -> str:
    return f"{_MPSAN} --mpsan-masks {','.join(units)}"


RECIPES = (
    ClassificationRecipe(
        "mpsan/table1_sst",
        title="MPSAN, Table 1: sentiment of the Stanford Sentiment Treebank, five classes",
        about="""\
The paper's numbers are the best of ten runs for MPSAN and DiSAN; the others are from other papers:
compare the column 'best'. Further columns: parameters without word vectors, and seconds of training
an epoch. The paper's seconds, on one GTX 1080 Ti, show that it trains on the phrases of the trees.
Its table also has models that are not here (RNNs, CNNs and LSTMs over trees). The Bi-LSTM without
self-attention, from another paper, is pooled by the mean. Bi-BloSAN has 300 features in each
direction, as in its paper for other data sets and in MTSA's, and so more parameters.""",
        datasets=_sst(),
        training=TRAINING,
        rows=(
            Row("Multi-head", "49.41 1.5 432", MULTI_HEAD),
            Row("CNN", "48.0 - -", "--arch cnn_classifier --encoder-hidden-dim 300"),
            Row("Bi-LSTM", "49.8 - -", "--arch bilstm_classifier --pooling mean"),
            Row("Bi-LSTM-SAN", "49.95 2.2 1704", "--arch bilstm_classifier"),
            Row("DiSAN", "51.72 1.8 485", "--arch disan_classifier"),
            Row("Bi-BloSAN", "51.49 2.2 425", BI_BLOSAN),
            Row("MPSAN", "52.53 1.1 359", _MPSAN),
        ),
    ),
    ClassificationRecipe(
        "mpsan/table2_masks",
        title="MPSAN, Table 2: masks (SST, five classes)",
        about="""\
Row names are the paper's. With its backward mask (BW) a word attends to those before it, with its
forward mask (FW) to those after it; FA are windows without the word itself. The paper's accuracies
are the best of ten runs: compare the column 'best'.""",
        datasets=datasets("sst5"),
        training=TRAINING,
        rows=(
            Row("0", "49.19", f"{_MPSAN} --encoder none"),
            Row("1", "51.54", _masks("past", "future")),
            Row("2", "51.81", _masks("past+scaled_distance", "future+scaled_distance")),
            Row("3", "51.13", _masks("window:2", "window:3")),
            Row("4", "51.99", _masks("window:2", "window:3", "past", "future")),
            Row(
                "5",
                "52.48",
                _masks(
                    "window:2+scaled_distance",
                    "window:3+scaled_distance",
                    "past+scaled_distance",
                    "future+scaled_distance",
                ),
            ),
            Row("6", "52.17", _masks("window:2", "window:3", "past+distance", "future+distance")),
            # window:2,window:3,past+scaled_distance,future+scaled_distance
            Row("MPSAN", "52.53", _MPSAN),
        ),
    ),
    ClassificationRecipe(
        "mpsan/table3_fusion",
        title="MPSAN, Table 3: fusion of the masks' outputs (SST, five classes)",
        about="""\
B&F has masks for the words before and after, mul is MPSAN with its four masks. FG is DiSAN's fusion
gate in each mask's unit, TPW a softmax over units and word for each feature. Further columns:
parameters without word vectors, and seconds of training an epoch. The paper's accuracies are the
best of ten runs: compare the column 'best'.""",
        datasets=_sst(),
        training=TRAINING,
        rows=(
            Row("B&F + FG", "51.36 1.45 298", f"{_BOTH_DIRECTIONS} --mpsan-fusion gate"),
            Row("B&F + TPW", "51.76 0.73 276", _BOTH_DIRECTIONS),
            Row("mul + FG", "52.39 4.33 497", f"{_MPSAN} --mpsan-fusion gate"),
            Row("mul + TPW", "52.53 1.09 359", _MPSAN),
        ),
    ),
    ClassificationRecipe(
        "mpsan/table4_dimensions",
        title="MPSAN, Table 4: one score for a pair of words, or one for each feature "
        "(SST, five classes)",
        about="""\
M-D has a score for each feature, 1-D a single one. Further columns: parameters without word
vectors, and seconds of training an epoch. The paper's accuracies are the best of ten runs: compare
the column 'best'.""",
        datasets=_sst(),
        training=TRAINING,
        rows=(
            Row(
                "M-D + B&F + TPW",
                "51.95 1.09 466",
                f"{_BOTH_DIRECTIONS} --mpsan-multi-dimensional",
            ),
            Row("1-D + B&F + TPW", "51.76 0.73 276", _BOTH_DIRECTIONS),
            Row("M-D + mul + TPW", "52.67 1.81 953", f"{_MPSAN} --mpsan-multi-dimensional"),
            Row("1-D + mul + TPW", "52.53 1.09 359", _MPSAN),
        ),
    ),
    ClassificationRecipe(
        "mpsan/table5_components",
        title="MPSAN, Table 5: without one component after the other (SST, five classes)",
        about="""\
Without fusion the masks' outputs are summed; without position the words are pooled directly;
without attention they are averaged. Further columns: parameters without word vectors, and seconds
of training an epoch. The paper's text removes the units in the third row, which leaves 0.27m
parameters; its 0.64m are those of four units whose outputs are summed (0.636m). So the row may mean
four units without masks: `--mpsan-masks others,others,others,others --mpsan-fusion sum`, where a
token does not attend to itself. The paper's accuracies are the best of ten runs: compare the column
'best'.""",
        datasets=_sst(),
        training=TRAINING,
        rows=(
            Row("MPSAN", "52.53 1.09 359", _MPSAN),
            Row("w/o fusion", "51.22 0.55 325", f"{_MPSAN} --mpsan-fusion sum"),
            Row("w/o position", "49.19 0.64 204", f"{_MPSAN} --encoder none"),
            Row("w/o attention", "44.93 0.09 115", f"{_MPSAN} --encoder none --pooling mean"),
        ),
    ),
    ClassificationRecipe(
        "mpsan/table6_sentences",
        title="MPSAN, Table 6: classification of sentences",
        about="""\
Accuracies are the mean of five runs on TREC, of ten folds elsewhere. The paper's numbers of the
other models are from the Bi-BloSAN paper; its table also has models that are not here. CBOW is a
classifier on the mean of the word vectors.""",
        datasets=datasets("trec", "cr", "mpqa", "subj"),
        training=TRAINING,
        rows=(
            Row("CBOW", "87.3 79.9 86.4 91.3", CBOW),
            Row("Bi-LSTM", "94.4±0.3 84.6±1.6 90.2±0.9 94.7±0.7", "--arch bilstm_classifier"),
            Row("Multi-head", "93.4±0.4 82.6±1.9 89.8±1.2 94.0±0.8", MULTI_HEAD),
            Row("DiSAN", "94.2±0.1 84.8±2.0 90.1±0.4 94.2±0.6", "--arch disan_classifier"),
            Row("Bi-BloSAN", "94.8±0.2 84.8±0.9 90.4±0.8 94.5±0.5", BI_BLOSAN),
            Row("MPSAN", "94.8±0.2 85.4±1.4 90.4±0.8 94.6±0.7", _MPSAN),
        ),
    ),
    ClassificationRecipe(
        "mpsan/table7_sick",
        title="MPSAN, Table 7: semantic relatedness of SICK's pairs",
        about="""\
Pearson's r, Spearman's rho and mean squared error of the relatedness from 1 to 5, means of five
runs. The objective is the Kullback-Leibler divergence of distributions over the five. The
checkpoint has the best Pearson's r in validation.""",
        datasets=datasets("sick"),
        training=TRAINING,
        rows=(
            Row("Bi-LSTM", "0.8473 0.7913 0.3276", "--arch bilstm_classifier"),
            Row("Multi-CNN", "0.8374 0.7793 0.3395", "--arch cnn_classifier --head-dim 300"),
            Row("Hrchy-CNN", "0.8436 0.7874 0.3162", "--arch hierarchical_cnn_classifier"),
            Row("Multi-head", "0.8521 0.7942 0.3258", MULTI_HEAD),
            Row("DiSAN", "0.8695 0.8139 0.2879", "--arch disan_classifier"),
            Row("Bi-BloSAN", "0.8616 0.8038 0.3008", BI_BLOSAN),
            Row("MPSAN", "0.8674 0.8119 0.2612", _MPSAN),
        ),
    ),
)
