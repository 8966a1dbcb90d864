"""Mask Attention Networks (Fan et al. 2021): translation and summarization.

The settings are the paper's (section 3.1) and, where they differ, those of the published training
scripts, from which its numbers are. All rows of a table have the same training, also the baselines,
whose numbers the paper quotes. Dropouts, shared embeddings and, in translation, pre-norm are those
of the dman_* architectures, as flags for the baselines.

The published numbers are of the released form: an activation on the concatenated heads of all
attention, and its own initialization. The dman_* architectures have the paper form, so the released
rows pass flags. As in the scripts, the checkpoint with the best validation loss is scored.
"""

from dataclasses import replace

from fairseq_posattn.recipes.papers.mechanisms import RELEASED
from fairseq_posattn.recipes.recipe import Generation, GenerationRecipe, Locality, Row

_SHARED = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt"
    " --warmup-init-lr 1e-7 --share-all-embeddings --attention-dropout 0.1"
)
_NORMS_BEFORE = "--encoder-normalize-before --decoder-normalize-before"
_TRANSLATION = f"{_SHARED} {_NORMS_BEFORE}"

# --- Table 1, translation ----------------------------------------------------------------------

# "small". Warm-up and epochs are the published script's; the text has 8,000 and 80,000 updates.
IWSLT14 = Generation(
    regime="iwslt14",
    corpus="iwslt14",
    preparation="translation iwslt14",
    source="de",
    target="en",
    training=f"{_TRANSLATION} --dropout 0.3 --lr 7e-3 --warmup-updates 16000"
    " --weight-decay 1e-4 --clip-norm 0",
    max_tokens=8192,
    batches=2,  # a GPU each
    max_epoch=250,
    checkpoint="best",
    decoding="--beam 5 --lenpen 1.0",
    scoring="bleu --forms tokenised-lowercase tokenised sacrebleu --detokenize en",
    metrics=("bleu",),
    metric="tokenised, case-insensitive BLEU",
)
WMT14_BASE = Generation(
    regime="wmt14_base",
    corpus="wmt14_en_de-v12",
    preparation="translation wmt14_en_de --news-commentary v12 --max-words 80",
    source="en",
    target="de",
    training=f"{_TRANSLATION} --dropout 0.1 --lr 1e-2 --warmup-updates 8000 --clip-norm 0",
    max_tokens=12288,
    batches=24,  # three for each of eight GPUs
    max_epoch=220,  # the text: 80,000 updates
    checkpoint="best",
    decoding="--beam 4 --lenpen 0.6",
    scoring="bleu --forms compound-split tokenised sacrebleu --detokenize de",
    metrics=("bleu",),
    metric="tokenised, cased BLEU, compounds split",
)
WMT14_BIG = replace(
    WMT14_BASE,
    regime="wmt14_big",
    # Pre-norm is a flag of the rows, because Scaling NMT has post-norm.
    training=f"{_SHARED} --dropout 0.3 --lr 1.5e-2 --warmup-updates 8000 --clip-norm 0",
    max_tokens=4096,
    batches=128,
    max_update=50000,
    max_epoch=0,
)

# --- Table 2, summarization --------------------------------------------------------------------

_SUMMARIZATION = (
    f"{_SHARED} --dropout 0.1 --clip-norm 0.1 --adam-eps 1e-6 --weight-decay 0.01"
    " --warmup-updates 8000"
    " --encoder-learned-pos --decoder-learned-pos"
    " --max-source-positions 512 --max-target-positions 512"
)
CNN_DAILYMAIL = Generation(
    regime="cnn_dailymail",
    corpus="cnn_dailymail",
    preparation="summarization cnn_dailymail",
    source="source",
    target="target",
    training=f"{_SUMMARIZATION} --lr 1e-3",
    max_tokens=8192,
    batches=32,  # eight for each of four GPUs
    max_update=50000,
    checkpoint="best",
    decoding="--beam 5 --lenpen 2.0 --min-len 50 --max-len-b 200 --no-repeat-ngram-size 3",
    scoring="rouge",
    metrics=("rouge1", "rouge2", "rougeL", "average"),
    metric="ROUGE-1, -2 and -L and their mean, F1",
    subwords="wordpiece",
)
GIGAWORD = replace(
    CNN_DAILYMAIL,
    regime="gigaword",
    corpus="gigaword",
    preparation="summarization gigaword",
    training=f"{_SUMMARIZATION} --lr 8e-4",
    max_tokens=12288,
    batches=12,  # three for each of four GPUs
    decoding="--beam 5 --lenpen 1.0 --min-len 1 --max-len-b 30 --no-repeat-ngram-size 3",
)
# Song et al. (2019), whom the paper follows: the width of DMAN's model, and feed-forward sublayers
# with four times the width instead of two.
_SUMMARIZATION_SIZE = " ".join(
    f"--{side}-embed-dim 768 --{side}-ffn-embed-dim 3072 --{side}-attention-heads 12"
    for side in ("encoder", "decoder")
)
_STOCK_SUMMARIZATION = (
    f"--arch transformer --activation-fn gelu --activation-dropout 0.1 --layernorm-embedding"
    f" {_SUMMARIZATION_SIZE}"
)

# --- The tables --------------------------------------------------------------------------------

# Wu et al. (2019), as in fairseq's examples. It has attention only in the decoder.
_DYNAMIC = "--encoder-conv-type dynamic --decoder-conv-type dynamic --weight-dropout 0.1"
_TINY_KERNELS = "--encoder-kernel-size-list [3] --decoder-kernel-size-list [3]"
_SMALL = "--arch dman_iwslt_de_en"
_STOCK_SMALL = "--arch transformer_iwslt_de_en --activation-dropout 0.1"
_SMAN = f"{_SMALL} --encoder-sublayers sman,san,ffn"
_SUMMARIZER = "--arch dman_summarization"
_RELEASED_SUMMARIZER = "--heads-activation gelu --heads-dropout 0.1 --start bert"


def _forms(name: str, paper: str, flags: str, released: str = RELEASED) -> tuple[Row, Row]:
    """Return the row of the published number, in the released form, and that of the paper form."""
    return (
        Row(f"{name} (released)", paper, f"{flags} {released}"),
        Row(f"{name} (paper)", flags=flags),
    )


def _alternatives(
    arch: str, feed_forward: int, convolutional: str, local: str, relative: str, embeddings: str
) -> tuple[Row, Row, Row]:
    """Return the rows of other papers that replace the encoder's self-attention.

    Args:
        arch: architecture whose widths they have.
        feed_forward: features within their feed-forward sublayers.
        convolutional, local, relative: published scores.
        embeddings: flags of the relative positions of Shaw et al. (2018, section 4.1) for this
            size.
    """
    stock = (
        f"--arch {arch} --encoder-ffn-embed-dim {feed_forward}"
        f" --decoder-ffn-embed-dim {feed_forward}"
    )
    window = "--encoder-sublayers masked,ffn --decoder-sublayers san,cross,ffn"
    gaussian = "--encoder-sublayers gaussian,ffn --decoder-sublayers san,cross,ffn"
    positions = f"--encoder-sublayers rpr,ffn --decoder-sublayers rpr,cross,ffn {embeddings}"
    return (
        Row(
            "Convolutional Transformer",
            convolutional,
            f"{stock} {window} --attention-masks window:5",
        ),
        Row("Local Transformer", local, f"{stock} {gaussian}"),
        Row("Relative Transformer", relative, f"{stock} {positions}"),
    )


RECIPES = (
    GenerationRecipe(
        "dman/cnn_dailymail",
        title="DMAN, Table 2: CNN/Daily Mail",
        about="""\
News summaries. DMAN, SAN, FFN on both sides with half the Transformer's feed-forward width, without
copying or coverage. LEAD-3 is the first three sentences of the news. The paper's numbers of the
other models are from other papers. Its text gives 50 as the maximum length of a summary; in the
published script, as is usual here, it is the minimum.""",
        settings=CNN_DAILYMAIL,
        rows=(
            Row("LEAD-3", "40.42 17.62 36.67 31.57", lead=3),
            Row(
                "Dynamic Conv",
                "39.84 16.25 36.73 30.94",
                f"--arch lightconv_iwslt_de_en {_DYNAMIC} {_SUMMARIZATION_SIZE}",
                tiny=_TINY_KERNELS,
            ),
            Row("Transformer", "39.50 16.06 36.63 30.73", _STOCK_SUMMARIZATION),
            *_forms("DMAN", "40.98 18.29 37.88 32.38", _SUMMARIZER, _RELEASED_SUMMARIZER),
        ),
    ),
    GenerationRecipe(
        "dman/gigaword",
        title="DMAN, Table 2: Gigaword",
        about="""\
Headlines of first sentences. Like dman/cnn_dailymail, on shorter text.""",
        settings=GIGAWORD,
        rows=(
            Row("Transformer", "37.57 18.90 34.69 30.38", _STOCK_SUMMARIZATION),
            *_forms("DMAN", "38.28 19.46 35.46 31.06", _SUMMARIZER, _RELEASED_SUMMARIZER),
        ),
    ),
    GenerationRecipe(
        "dman/iwslt14",
        title="DMAN, Table 1: IWSLT14 German to English (small)",
        about="""\
The encoder's layers are DMAN, SAN, FFN with half the Transformer's feed-forward width: 37M
parameters, the Transformer has 36M. Tokenised, case-insensitive BLEU. Warm-up (16,000 updates) and
length (250 epochs) are the published script's; the paper's text has 8,000 and 80,000 updates:
    --max-update 80000 -- --warmup-updates 8000
The other numbers are from other papers. The Transformer with fairseq's documented settings is:
    --rows Transformer -- --lr 5e-4 --warmup-updates 4000""",
        settings=IWSLT14,
        rows=(
            Row("Transformer", "34.4", _STOCK_SMALL),
            Row(
                "Dynamic Conv",
                "35.2",
                f"--arch lightconv_iwslt_de_en {_DYNAMIC}",
                tiny=_TINY_KERNELS,
            ),
            *_forms("DMAN", "36.3", _SMALL),
        ),
    ),
    GenerationRecipe(
        "dman/table3_sublayers",
        title="DMAN, Table 3: the order of the sublayers (IWSLT14 German to English)",
        about="""\
The encoder's layers vary; the decoder's are SAN, cross attention, FFN, as in the published
configuration, whose score is that of C#5. Tokenised, case-insensitive BLEU.""",
        settings=IWSLT14,
        rows=(
            *_forms("C#1", "35.51", f"{_SMALL} --encoder-sublayers ffn,san,ffn"),
            *_forms("C#2", "35.66", f"{_SMALL} --encoder-sublayers san,san,ffn"),
            *_forms("C#3", "35.86", f"{_SMALL} --encoder-sublayers dman,dman,ffn"),
            *_forms("C#4", "35.91", f"{_SMALL} --encoder-sublayers san,dman,ffn"),
            *_forms("C#5", "36.35", _SMALL),  # dman,san,ffn
        ),
    ),
    GenerationRecipe(
        "dman/table4_static_masks",
        title="DMAN, Table 4: static and dynamic masks (IWSLT14 German to English)",
        about="""\
SMAN attends to as many tokens on each side as the square root of half the sentence's length (1), or
to four (2). Tokenised, case-insensitive BLEU.""",
        settings=IWSLT14,
        rows=(
            Row("Transformer", "34.40", _STOCK_SMALL),
            *_forms("SMAN1", "35.52", f"{_SMAN} --sman-radius sqrt"),
            *_forms("SMAN2", "35.55", f"{_SMAN} --sman-radius 4"),
            *_forms("DMAN", "36.35", _SMALL),
        ),
    ),
    GenerationRecipe(
        "dman/table5_locality",
        title="DMAN, Table 5: attention within 1, 2 and 4 tokens (IWSLT14 German to English)",
        about="""\
Trains DMAN (released) of Table 4, or reuses it from the same --out, and measures on the test set
the share of attention near the query in layers 1, 3 and 6 of the encoder (eq. 13): percentages by
layer.""",
        settings=IWSLT14,
        rows=_forms("DMAN", "36.35", _SMALL)[:1],
        locality=Locality(
            rows=(
                Row("DMAN 1", "76.58 60.43 60.86"),
                Row("SAN 1", "12.80 40.39 45.55"),
                Row("DMAN 2", "86.17 75.56 73.89"),
                Row("SAN 2", "18.73 45.62 52.72"),
                Row("DMAN 4", "95.09 86.20 85.58"),
                Row("SAN 4", "30.38 55.17 62.77"),
            ),
            layers=(1, 3, 6),
            windows=(1, 2, 4),
        ),
    ),
    GenerationRecipe(
        "dman/wmt14_base",
        title="DMAN, Table 1: WMT14 English to German (base)",
        about="""\
DMAN, SAN, FFN on both sides with half the Transformer's feed-forward width: 63M parameters, the
Transformer has 62M. Three alternatives of the table are from their own papers: attention within
five tokens on each side; a learned Gaussian window; relative positions, 16 on each side, with
embeddings for each head. The first two papers restrict only the lower layers, here all encoder
layers are restricted; the first also attends across neighboring heads. The length is the published
script's, 220 epochs; the paper's text: --max-update 80000. The data is the script's, too: News
Commentary v12, pairs of 1 to 80 words. Tokenised, cased BLEU with compounds split, as in the
published test script.""",
        settings=WMT14_BASE,
        rows=(
            Row("Transformer", "27.3", "--arch transformer_wmt_en_de --activation-dropout 0.1"),
            *_alternatives(
                "dman_wmt_en_de",
                2048,
                convolutional="28.2",
                local="28.5",
                relative="26.8",
                embeddings="--rpr-per-head --rpr-max-distance 16",
            ),
            *_forms("DMAN", "29.1", "--arch dman_wmt_en_de"),
        ),
    ),
    GenerationRecipe(
        "dman/wmt14_big",
        title="DMAN, Table 1: WMT14 English to German (big)",
        about="""\
Like dman/wmt14_base with twice the widths and heads: 215M parameters, the Transformer has 213M.
Relative positions are 8 on each side, with embeddings shared by all heads. Scaling NMT is fairseq's
Transformer with its example's training for large batches, on the data and for the updates of this
table. BLEU as in dman/wmt14_base.""",
        settings=WMT14_BIG,
        rows=(
            Row(
                "Transformer",
                "28.4",
                f"--arch transformer_wmt_en_de_big --activation-dropout 0.1 {_NORMS_BEFORE}",
            ),
            *_alternatives(
                "dman_wmt_en_de_big",
                4096,
                convolutional="28.7",
                local="29.2",
                relative="29.2",
                embeddings="--rpr-max-distance 8",
            ),
            # fairseq's examples/scaling_nmt, with its learning rate for large batches.
            Row(
                "Scaling NMT",
                "29.3",
                "--arch transformer_vaswani_wmt_en_de_big --attention-dropout 0"
                " --lr 1e-3 --warmup-updates 4000",
            ),
            Row(
                "Dynamic Conv",
                "29.7",
                f"--arch lightconv_wmt_en_de_big {_DYNAMIC} --encoder-glu 1 --decoder-glu 1"
                f" {_NORMS_BEFORE}",
                tiny=_TINY_KERNELS,
            ),
            *_forms("DMAN", "30.4", "--arch dman_wmt_en_de_big"),
        ),
    ),
)
