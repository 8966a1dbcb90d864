"""Multi-mask tensorized self-attention (Shen et al. 2019): classification and translation.

On classification the settings are those of the published code, from which the numbers are; the text
(appendix B) differs on TREC (L2 1e-4, 80,000 updates), CR, MPQA and SUBJ (dropout of features 0.5;
of attention 0.2 on CR and MPQA). Only SNLI has ELU, a highway layer and a bias on its classes; its
words and training pairs are those of the released code (--released-form). That code selects
checkpoints on the test questions of TREC and on the tested folds of CR, MPQA and SUBJ; here a tenth
of the training set, or of each fold's, is held out. Adadelta's running averages of absent words
decay at every update, because gradients are dense; TensorFlow's sparse form does not decay them.

On translation (Table 6; section 4.4, appendix B.1) the settings are those of tensor2tensor's
transformer_base. Its peak learning rate is 2 / sqrt(512) / sqrt(warm-up). Its length penalty,
((5 + length) / 6) ** 0.6, is approximated by fairseq's length ** 0.6. On semantic roles (Table 4)
they are those of the tagger that it extends (Tan et al., 2018).
"""

import math
from dataclasses import replace

from fairseq_posattn.recipes.datasets import ROLES, datasets
from fairseq_posattn.recipes.papers.dman_tables import WMT14_BASE
from fairseq_posattn.recipes.papers.mpsan_tables import ADADELTA, CBOW, MAPS
from fairseq_posattn.recipes.recipe import (
    ClassificationRecipe,
    Dataset,
    GenerationRecipe,
    Training,
    rows,
)

# --- Classification ----------------------------------------------------------------------------

_ADADELTA = f"{ADADELTA} --lr 0.5 {MAPS}"
_ADAM = f"--optimizer adam --lr-scheduler fixed --lr 1e-3 --l2 1e-4 {MAPS}"
_PLAIN = "--map-activation relu --head-highway-layers 0 --no-class-bias"
_INFERENCE = Training(
    f"{_ADADELTA} --dropout 0.35 --l2 5e-5", 128, updates=600000, interval=4000, seeds=1
)


def _transfer(examples: int) -> Training:
    """Return the training of Radford et al. (2018), section 4.1: three epochs, 0.2% warm-up."""
    batch, epochs = 32, 3
    updates = epochs * math.ceil(examples / batch)
    flags = (
        "--optimizer adam --adam-betas '(0.9, 0.999)' --weight-decay 0.01 --clip-norm 1"
        f" --lr 6.25e-5 --lr-scheduler polynomial_decay --warmup-updates {round(0.002 * updates)}"
        f" --total-num-update {updates} --dropout 0.1 --language-model-weight 0.3 {MAPS}"
    )
    return Training(flags, batch, epochs=epochs, seeds=1)


def _folded(dropouts: str) -> Training:
    return Training(f"{_ADAM} {_PLAIN} {dropouts}", updates=1000, interval=50, seeds=1)


def _sentences(flags: str, batch: int, updates: int, interval: int) -> Training:
    return Training(f"{_ADADELTA} {_PLAIN} {flags}", batch, updates=updates, interval=interval)


TRAINING = {
    "snli": _INFERENCE,
    "multinli": _INFERENCE,
    "cr": _folded("--dropout 0.525 --attention-dropout 0.19"),
    "mpqa": _folded("--dropout 0.45"),
    "subj": _folded("--dropout 0.45 --attention-dropout 0.19"),
    "trec": _sentences("--dropout 0.5 --l2 5e-5", 32, 99000, 450),
    "sst5": _sentences("--dropout 0.3 --l2 1e-4", 128, 120000, 1000),
}
_BOTH_SETS = ("accuracy", "valid_accuracy")
_TRANSFER = tuple(
    replace(dataset, folder=f"{dataset.name}_gpt", language_model=True)
    for dataset in datasets("snli", "multinli", metrics=_BOTH_SETS)
)


def _snli(*metrics: str) -> tuple[Dataset, ...]:
    """Return SNLI as in the released code; all tables also test on its training set."""
    (snli,) = datasets("snli", metrics=("accuracy", *metrics))
    released = replace(snli, preparation="--released-form", folder="snli_released")
    return (replace(released, tests=("test", "train")),)


# --- Semantic roles ----------------------------------------------------------------------------

_TAGGING = Training(
    "--start-input-bias"
    " --label-smoothing 0.1 --optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-6 --lr 1.0"
    " --lr-scheduler manual --update2lr \"{'0':1.0,'400000':0.5,'500000':0.25}\""
    " --clip-norm 1",
    max_tokens=4096,
    updates=600000,
    interval=2000,
    seeds=1,
)
_SMALL_TAGGING = Training(
    "--predicate-embed-dim 50 --encoder-layers 4 --encoder-attention-heads 4"
    " --encoder-ffn-embed-dim 400 --encoder-hidden-dim 200 --lstm-layers 2 --cnn-widths 3,5"
    " --label-smoothing 0.1 --optimizer adam --lr 1e-3 --lr-scheduler polynomial_decay"
    " --warmup-updates 200 --total-num-update 3000 --clip-norm 1",
    max_tokens=2048,
    updates=3000,
    interval=500,
    seeds=1,
)
_NO_EWT = "- - - - - - - -"

# --- Translation -------------------------------------------------------------------------------

_SHARED = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --optimizer adam --adam-betas '(0.9, 0.997)' --adam-eps 1e-9 --clip-norm 0"
    " --lr-scheduler inverse_sqrt --encoder-normalize-before --decoder-normalize-before"
    " --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1 --share-all-embeddings"
)
_SETUP1 = replace(
    WMT14_BASE,
    regime="setup1",
    corpus="wmt14_en_de-v13",
    preparation="translation wmt14_en_de --news-commentary v13",
    training=f"{_SHARED} --lr 7e-4 --warmup-updates 16000",
    max_tokens=2048,
    batches=1,
    max_epoch=0,
    max_update=250000,
    checkpoint="last",
    scoring="bleu --forms tokenised compound-split sacrebleu --detokenize de",
    metric="tokenised, cased BLEU",
)
_SETUP2 = replace(
    _SETUP1,
    regime="setup2",
    training=f"{_SHARED} --lr 9.9e-4 --warmup-updates 8000",
    max_tokens=6144,
    batches=4,
    max_update=133000,
)
# The published code differs from the paper: no direction masks, identity scaling of token2token
# scores, and source2token scores of the value through one linear layer and a scaled sigmoid. These
# are its defaults (transformer_base_v1, afn_multi); setup 1 also sets the bias (bias_start).
_PUBLISHED_MTSA = (
    "mtsa_transformer_wmt_en_de --mtsa-masks none --mtsa-token-scale identity"
    " --mtsa-source value --mtsa-source-layers 1"
    " --mtsa-divide-source --mtsa-source-scale log_sigmoid"
)

RECIPES = (
    ClassificationRecipe(
        "mtsa/table1_snli",
        "MTSA, Table 1: natural language inference, SNLI",
        """\
Sentences are encoded separately. Further columns: parameters without word vectors, seconds of
training an epoch, seconds of classifying the development set (both 128 pairs at a time), and memory
of the encoder, forward and backward, on 64 generated sentences of 64 words. Times depend on the
machine: compare the paper's with each other, and ours with each other. Multi-CNN's max pooling, as
in Kim (2014), is a guess. The paper's table also has models of SNLI's leaderboard that are not
here.""",
        rows("""
            Bi-LSTM    | 85.0 90.4 2.9 854 9.1 942  | bilstm_classifier
            Bi-GRU     | 84.9 91.9 2.5 850 9.4 810  | bigru_classifier
            Multi-CNN  | 83.2 89.3 1.4 137 1.4 208  | cnn_classifier --head-dim 300
            Hrchy-CNN  | 83.9 91.3 3.4 195 1.8 309  | hierarchical_cnn_classifier
            Multi-head | 84.2 89.6 2.0 179 1.5 466  | multi_head_classifier
            DiSA       | 85.6 91.1 2.3 390 5.2 6682 | disan_classifier
            Bi-BloSA   | 85.8 91.6 4.1 303 3.2 1600 | bi_blosan_classifier
            MTSA       | 86.3 91.8 2.9 180 1.6 558  | mtsa_classifier"""),
        _snli("train_accuracy", "parameters_m", "epoch_s", "inference_s", "memory_mb"),
        TRAINING,
    ),
    ClassificationRecipe(
        "mtsa/table2_multinli",
        "MTSA, Table 2: SNLI and MultiNLI, from word vectors only",
        """\
An analogous study: the paper's models have a pre-trained language model below them, ours have
GloVe, so they cannot reach its numbers. The four columns are SNLI's test and development set (here:
validation), and MultiNLI's mismatched and matched set. The test labels of MultiNLI are not public:
here the mismatched development set is the test set, and the matched one is for validation, which
selects the checkpoint. Training is as on SNLI.""",
        rows("""
            Multi-head | 86.6 86.9 75.7 76.3 | multi_head_classifier
            MTSA       | 86.9 87.2 76.4 76.7 | mtsa_classifier"""),
        (*_snli("valid_accuracy"), *datasets("multinli", metrics=_BOTH_SETS)),
        TRAINING,
    ),
    ClassificationRecipe(
        "mtsa/table2_transfer",
        "MTSA, Table 2: SNLI and MultiNLI, from a pre-trained language model",
        """\
The language model is that of Radford et al. (2018). Put config.json, vocab.json, merges.txt and
model.safetensors (or pytorch_model.bin) of Hugging Face's openai-gpt into the folder openai-gpt of
--data; --tiny makes a small random one. It reads each sentence separately, and its last layer
replaces word vectors. It is trained as well, with its own loss weighted by 0.3. Optimizer,
schedule, batch and epochs are those of Radford et al.; biases decay, too. Columns and splits are
those of mtsa/table2_multinli.""",
        rows("""
            Transfer + Multi-Head | 86.6 86.9 75.7 76.3 | multi_head_classifier
            Transfer + MTSA       | 86.9 87.2 76.4 76.7 | mtsa_classifier"""),
        _TRANSFER,
        {"snli": _transfer(549_367), "multinli": _transfer(392_702)},
        "transfer",
    ),
    ClassificationRecipe(
        "mtsa/table3_ablations",
        "MTSA, Table 3: without one of its parts (SNLI)",
        """\
Further columns: parameters without word vectors, and seconds of classifying the development set.
Without direction masks a token attends to all others but not to itself, as in the released
code.""",
        rows("""
            MTSA                 | 86.3 2.9 1.6 | mtsa_classifier
            w/o fw&bw masks      | 85.3 2.9 1.6 | mtsa_classifier --mtsa-masks others
            w/o token2token      | 85.8 2.5 1.5 | mtsa_classifier --mtsa-scores source2token
            w/o source2token     | 84.9 2.5 1.4 | mtsa_classifier --mtsa-scores token2token
            w/o proposed modules | 84.3 1.8 1.1 | mtsa_classifier --mtsa-scores none"""),
        _snli("parameters_m", "inference_s"),
        TRAINING,
    ),
    ClassificationRecipe(
        "mtsa/table4_roles",
        "MTSA, Table 4: semantic roles with given predicates, CoNLL-2005",
        """\
Scores are those of the Wall Street Journal; prefix test1 is Brown, prefix valid the development
set. CoNLL-2005's words are licensed: `posattn prepare tagging conll05 --source FOLDER` takes them
from your Penn Treebank. EWT, which is free, is an alternative; the paper has no numbers of it. Each
row is a single model. Depth and width of Bi-LSTM and Multi-CNN are not published. The paper
averages nothing, and selects the best of its five best checkpoints, as is done here.""",
        rows(f"""
            Bi-LSTM | 83.5 83.0 84.0 64.6 72.5 72.3 72.8 46.8 82.6 81.8 83.4 63.3 {_NO_EWT} | \
bilstm_tagger
            Multi-CNN | 79.0 77.3 80.9 55.5 69.3 68.3 70.3 41.9 77.3 75.2 79.6 53.6 {_NO_EWT} | \
cnn_tagger
            Multi-head | 84.8 84.5 85.2 66.4 74.1 73.5 74.6 48.4 83.1 82.6 83.6 65.2 {_NO_EWT} | \
transformer_tagger
            MTSA | 84.8 84.2 85.3 67.0 74.5 74.3 74.6 49.1 83.6 82.8 84.4 65.4 {_NO_EWT} | \
mtsa_tagger"""),
        ROLES,
        dict.fromkeys((dataset.name for dataset in ROLES), _TAGGING),
        "roles",
    ),
    ClassificationRecipe(
        "mtsa/table4_roles_small",
        "Semantic roles in EWT, small taggers trained alike",
        """\
The taggers of mtsa/table4_roles on free data, so small that one CPU core trains the slowest in some
twenty minutes: four layers of 200 features with four heads on projected words and predicates, or
two layers of Bi-LSTM with 100 features in each direction; 3,000 updates of 2,048 words (about nine
epochs) by Adam with linear decay. Dropouts are the architectures'. RPR is multi-head attention with
relative positions, which is not in the paper's table. The settings are no paper's, so there are no
paper's numbers. Use word vectors of 50 features: prepare EWT with --glove 6B.50d.""",
        rows("""
            Bi-LSTM    | | bilstm_tagger
            Multi-CNN  | | cnn_tagger
            Multi-head | | transformer_tagger
            RPR        | | transformer_tagger --encoder-sublayers rpr,ffn
            MTSA       | | mtsa_tagger"""),
        tuple(dataset for dataset in ROLES if dataset.name == "ewt"),
        {"ewt": _SMALL_TAGGING},
        "roles_small",
    ),
    ClassificationRecipe(
        "mtsa/table5_sentences",
        "MTSA, Table 5: classification of sentences",
        """\
Accuracies are the mean of ten folds on CR, MPQA and SUBJ, of five runs on TREC and SST-5. The paper
selects checkpoints on the test questions of TREC and on the tested folds of CR, MPQA and SUBJ, ours
are selected in validation: on these four sets they cannot be compared. Dropout, L2, batches and
updates are the published code's, which differ from the text's on TREC (L2 5e-5, 99,000 updates of
32; the text: 1e-4, 80,000), CR, MPQA and SUBJ. Classes have no bias, as in that code. The paper's
table also has numbers of other papers; of these models only cBoW is here, a classifier on the mean
of the word vectors.""",
        rows(f"""
            cBoW       | 79.9 86.4 91.3 87.3 - | {CBOW}
            Bi-LSTM    | 84.6±1.6 90.2±0.9 94.7±0.7 94.4±0.3 49.9±0.8 | bilstm_classifier
            Multi-head | 82.6±1.9 89.8±1.2 94.0±0.8 93.4±0.4 48.2±0.6 | multi_head_classifier
            DiSA       | 84.8±2.0 90.1±0.4 94.2±0.6 94.2±0.1 51.0±0.7 | disan_classifier
            Bi-BloSA   | 84.8±0.9 90.4±0.8 94.5±0.5 94.8±0.2 50.6±0.5 | bi_blosan_classifier
            MTSA       | 84.9±2.4 90.5±0.6 94.5±0.6 95.3±0.3 51.3±0.7 | mtsa_classifier"""),
        datasets("cr", "mpqa", "subj", "trec", "sst5"),
        TRAINING,
    ),
    GenerationRecipe(
        "mtsa/table6_setup1",
        "MTSA, Table 6, setup 1: WMT14 English to German, one GPU, 2048 tokens an update",
        """\
MTSA replaces multi-head attention in the encoder: 61.58M parameters, the Transformer has 61.38M.
The paper's numbers are means of 5 runs (or 6, it says both), each scored at its last checkpoint:
repeat with --seed 2 and so on. MTSA is that of the published command: its source2token scores are
divided by the root of a head's features and go through a log-sigmoid, and their bias is initialized
to 5. Ours are tokenised, cased BLEU; the paper does not name its own.""",
        rows(f"""
            Transformer | 23.64 | transformer_wmt_en_de
            MTSA        | 24.09 | {_PUBLISHED_MTSA} --mtsa-source-bias 5"""),
        _SETUP1,
    ),
    GenerationRecipe(
        "mtsa/table6_setup2",
        "MTSA, Table 6, setup 2: WMT14 English to German, four GPUs, 6144 tokens on each",
        """\
Like setup 1, with twelve times the tokens in an update and about half the updates. The paper's
numbers are means of 3 runs. It does not name their checkpoints; the last one is used, as in setup
1. MTSA has the published code's defaults: the scaled sigmoid, and biases initialized to zero.""",
        rows(f"""
            Transformer | 26.98 | transformer_wmt_en_de
            MTSA        | 27.21 | {_PUBLISHED_MTSA}"""),
        _SETUP2,
    ),
)
