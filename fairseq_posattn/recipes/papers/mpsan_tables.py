"""Multiple positional self-attention (Dai et al. 2020): classification, relatedness.

The settings are the paper's ("Experiments and Results"). Its dropout ratios, 0.7 and on SICK 0.55,
are read as keep probabilities, as in the papers it builds on; rho and epsilon are the defaults of
its TensorFlow 1.4; its dropouts "between the layers" precede every linear layer, as in those
papers' code. It does not specify the length of training: on SST and TREC it is that of MTSA's
paper, elsewhere 20,000 updates, as in the published code of Bi-BloSAN on SICK, whose features of a
pair, |a - b| and a * b, are used, too.
"""

from fairseq_posattn.recipes.datasets import datasets
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Training, rows

CBOW = "swem_classifier --pooling mean --head-dim 0"
ADADELTA = "--optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-8 --lr-scheduler fixed"
MAPS = "--dropout-places maps"

_FLAGS = f"{ADADELTA} --lr 0.5 --l2 1e-7 {MAPS} --dropout 0.3"
_SICK = f"{_FLAGS} --lr 0.7 --l2 5e-4 --dropout 0.45 --pair-features distance"
TRAINING = {
    "sst5": Training(_FLAGS, updates=120000, interval=1000, seeds=10),
    "trec": Training(_FLAGS, updates=80000, interval=400),
    "sick": Training(_SICK, updates=20000, interval=200),
    **dict.fromkeys(("cr", "mpqa", "subj"), Training(_FLAGS, updates=20000, interval=200, seeds=1)),
}
_SST = datasets("sst5", metrics=("accuracy", "parameters_m", "epoch_s"))
_COLUMNS = """\
Further columns: parameters without word vectors, and seconds of training an epoch. The paper's
accuracies are the best of ten runs: compare the column 'best'."""

RECIPES = (
    ClassificationRecipe(
        "mpsan/table1_sst",
        "MPSAN, Table 1: sentiment of the Stanford Sentiment Treebank, five classes",
        """\
The paper's numbers are the best of ten runs for MPSAN and DiSAN; the others are from other papers:
compare the column 'best'. Further columns: parameters without word vectors, and seconds of training
an epoch. The paper's seconds, on one GTX 1080 Ti, show that it trains on the phrases of the trees.
Its table also has models that are not here (RNNs, CNNs and LSTMs over trees). The Bi-LSTM without
self-attention, from another paper, is pooled by the mean. Bi-BloSAN has 300 features in each
direction, as in its paper for other data sets and in MTSA's, and so more parameters.""",
        rows("""
            Multi-head  | 49.41 1.5 432  | multi_head_classifier
            CNN         | 48.0 - -       | cnn_classifier --encoder-hidden-dim 300
            Bi-LSTM     | 49.8 - -       | bilstm_classifier --pooling mean
            Bi-LSTM-SAN | 49.95 2.2 1704 | bilstm_classifier
            DiSAN       | 51.72 1.8 485  | disan_classifier
            Bi-BloSAN   | 51.49 2.2 425  | bi_blosan_classifier
            MPSAN       | 52.53 1.1 359  | mpsan_classifier"""),
        _SST,
        TRAINING,
    ),
    ClassificationRecipe(
        "mpsan/table2_masks",
        "MPSAN, Table 2: masks (SST, five classes)",
        """\
Row names are the paper's. With its backward mask (BW) a word attends to those before it, with its
forward mask (FW) to those after it; FA are windows without the word itself. MPSAN has the masks
window:2,window:3,past+scaled_distance,future+scaled_distance. The paper's accuracies are the best
of ten runs: compare the column 'best'.""",
        rows("""
            0     | 49.19 | mpsan_classifier --encoder none
            1     | 51.54 | mpsan_classifier --mpsan-masks past,future
            2     | 51.81 | mpsan_classifier --mpsan-masks \
past+scaled_distance,future+scaled_distance
            3     | 51.13 | mpsan_classifier --mpsan-masks window:2,window:3
            4     | 51.99 | mpsan_classifier --mpsan-masks window:2,window:3,past,future
            5     | 52.48 | mpsan_classifier --mpsan-masks \
window:2+scaled_distance,window:3+scaled_distance,past+scaled_distance,future+scaled_distance
            6     | 52.17 | mpsan_classifier --mpsan-masks \
window:2,window:3,past+distance,future+distance
            MPSAN | 52.53 | mpsan_classifier"""),
        datasets("sst5"),
        TRAINING,
    ),
    ClassificationRecipe(
        "mpsan/table3_fusion",
        "MPSAN, Table 3: fusion of the masks' outputs (SST, five classes)",
        f"""\
B&F has masks for the words before and after, mul is MPSAN with its four masks. FG is DiSAN's fusion
gate in each mask's unit, TPW a softmax over units and word for each feature. {_COLUMNS}""",
        rows("""
            B&F + FG  | 51.36 1.45 298 | mpsan_classifier --mpsan-masks past,future \
--mpsan-fusion gate
            B&F + TPW | 51.76 0.73 276 | mpsan_classifier --mpsan-masks past,future
            mul + FG  | 52.39 4.33 497 | mpsan_classifier --mpsan-fusion gate
            mul + TPW | 52.53 1.09 359 | mpsan_classifier"""),
        _SST,
        TRAINING,
    ),
    ClassificationRecipe(
        "mpsan/table4_dimensions",
        "MPSAN, Table 4: one score for a pair of words, or one for each feature "
        "(SST, five classes)",
        f"M-D has a score for each feature, 1-D a single one. {_COLUMNS}",
        rows("""
            M-D + B&F + TPW | 51.95 1.09 466 | mpsan_classifier --mpsan-masks past,future \
--mpsan-multi-dimensional
            1-D + B&F + TPW | 51.76 0.73 276 | mpsan_classifier --mpsan-masks past,future
            M-D + mul + TPW | 52.67 1.81 953 | mpsan_classifier --mpsan-multi-dimensional
            1-D + mul + TPW | 52.53 1.09 359 | mpsan_classifier"""),
        _SST,
        TRAINING,
    ),
    ClassificationRecipe(
        "mpsan/table5_components",
        "MPSAN, Table 5: without one component after the other (SST, five classes)",
        f"""\
Without fusion the masks' outputs are summed; without position the words are pooled directly;
without attention they are averaged. The paper's text removes the units in the third row, which
leaves 0.27m parameters; its 0.64m are those of four units whose outputs are summed (0.636m). So the
row may mean four units without masks: `--mpsan-masks others,others,others,others --mpsan-fusion
sum`, where a token does not attend to itself. {_COLUMNS}""",
        rows("""
            MPSAN         | 52.53 1.09 359 | mpsan_classifier
            w/o fusion    | 51.22 0.55 325 | mpsan_classifier --mpsan-fusion sum
            w/o position  | 49.19 0.64 204 | mpsan_classifier --encoder none
            w/o attention | 44.93 0.09 115 | mpsan_classifier --encoder none --pooling mean"""),
        _SST,
        TRAINING,
    ),
    ClassificationRecipe(
        "mpsan/table6_sentences",
        "MPSAN, Table 6: classification of sentences",
        """\
Accuracies are the mean of five runs on TREC, of ten folds elsewhere. The paper's numbers of the
other models are from the Bi-BloSAN paper; its table also has models that are not here. CBOW is a
classifier on the mean of the word vectors.""",
        rows(f"""
            CBOW       | 87.3 79.9 86.4 91.3 | {CBOW}
            Bi-LSTM    | 94.4±0.3 84.6±1.6 90.2±0.9 94.7±0.7 | bilstm_classifier
            Multi-head | 93.4±0.4 82.6±1.9 89.8±1.2 94.0±0.8 | multi_head_classifier
            DiSAN      | 94.2±0.1 84.8±2.0 90.1±0.4 94.2±0.6 | disan_classifier
            Bi-BloSAN  | 94.8±0.2 84.8±0.9 90.4±0.8 94.5±0.5 | bi_blosan_classifier
            MPSAN      | 94.8±0.2 85.4±1.4 90.4±0.8 94.6±0.7 | mpsan_classifier"""),
        datasets("trec", "cr", "mpqa", "subj"),
        TRAINING,
    ),
    ClassificationRecipe(
        "mpsan/table7_sick",
        "MPSAN, Table 7: semantic relatedness of SICK's pairs",
        """\
Pearson's r, Spearman's rho and mean squared error of the relatedness from 1 to 5, means of five
runs. The objective is the Kullback-Leibler divergence of distributions over the five. The
checkpoint has the best Pearson's r in validation.""",
        rows("""
            Bi-LSTM    | 0.8473 0.7913 0.3276 | bilstm_classifier
            Multi-CNN  | 0.8374 0.7793 0.3395 | cnn_classifier --head-dim 300
            Hrchy-CNN  | 0.8436 0.7874 0.3162 | hierarchical_cnn_classifier
            Multi-head | 0.8521 0.7942 0.3258 | multi_head_classifier
            DiSAN      | 0.8695 0.8139 0.2879 | disan_classifier
            Bi-BloSAN  | 0.8616 0.8038 0.3008 | bi_blosan_classifier
            MPSAN      | 0.8674 0.8119 0.2612 | mpsan_classifier"""),
        datasets("sick"),
        TRAINING,
    ),
)
