"""Mask Attention Networks (Fan et al. 2021): translation and summarization.

Settings are the paper's (section 3.1) and, where they differ, those of the published scripts, from
which its numbers are: the best checkpoint by validation loss, and the released form, which the
dman_* architectures (paper form) take by flags. All rows of a table are trained alike.
"""

from dataclasses import replace

from fairseq_posattn.recipes.papers.multi30k import RELEASED
from fairseq_posattn.recipes.recipe import Generation, GenerationRecipe, Locality, Row, rows

_SHARED = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt"
    " --warmup-init-lr 1e-7 --share-all-embeddings --attention-dropout 0.1"
)
_NORMS_BEFORE = "--encoder-normalize-before --decoder-normalize-before"

# --- Table 1, translation ----------------------------------------------------------------------

# "small". Warm-up and epochs are the published script's; the text has 8,000 and 80,000 updates.
IWSLT14 = Generation(
    regime="iwslt14",
    corpus="iwslt14",
    preparation="translation iwslt14",
    training=f"{_SHARED} {_NORMS_BEFORE} --dropout 0.3 --lr 7e-3 --warmup-updates 16000"
    " --weight-decay 1e-4 --clip-norm 0",
    max_tokens=8192,
    batches=2,  # a GPU each
    max_epoch=250,
    checkpoint="best",
    decoding="--beam 5 --lenpen 1.0",
    scoring="bleu --forms tokenised-lowercase tokenised sacrebleu --detokenize en",
    metric="tokenised, case-insensitive BLEU",
)
WMT14_BASE = Generation(
    regime="wmt14_base",
    corpus="wmt14_en_de-v12",
    preparation="translation wmt14_en_de --news-commentary v12 --max-words 80",
    source="en",
    target="de",
    training=f"{_SHARED} {_NORMS_BEFORE} --dropout 0.1 --lr 1e-2 --warmup-updates 8000"
    " --clip-norm 0",
    max_tokens=12288,
    batches=24,  # three for each of eight GPUs
    max_epoch=220,  # the text: 80,000 updates
    checkpoint="best",
    decoding="--beam 4 --lenpen 0.6",
    scoring="bleu --forms compound-split tokenised sacrebleu --detokenize de",
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
    " --warmup-updates 8000 --encoder-learned-pos --decoder-learned-pos"
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
    f"transformer --activation-fn gelu --activation-dropout 0.1 --layernorm-embedding"
    f" {_SUMMARIZATION_SIZE}"
)

# --- The tables --------------------------------------------------------------------------------

_STOCK_SMALL = "transformer_iwslt_de_en --activation-dropout 0.1"
_SMAN = "dman_iwslt_de_en --encoder-sublayers sman,san,ffn"


def _forms(lines: str, released: str = RELEASED) -> tuple[Row, ...]:
    """Return two rows for each: the published number's, in the released form, and the paper form's.

    Args:
        lines: as of :func:`rows`.
        released: flags of the released form.
    """
    return tuple(
        form
        for row in rows(lines)
        for form in (
            Row(f"{row.name} (released)", row.paper, f"{row.flags} {released}"),
            Row(f"{row.name} (paper)", flags=row.flags),
        )
    )


def _summarizers(transformer: str, dman: str) -> tuple[Row, ...]:
    return (
        *rows(f"Transformer | {transformer} | {_STOCK_SUMMARIZATION}"),
        *_forms(
            f"DMAN | {dman} | dman_summarization",
            "--heads-activation gelu --heads-dropout 0.1 --start bert",
        ),
    )


def _dynamic(paper: str, arch: str, flags: str = "") -> Row:
    """Return the row of Wu et al. (2019), as in fairseq's examples."""
    kinds = "--encoder-conv-type dynamic --decoder-conv-type dynamic --weight-dropout 0.1"
    kernels = "--encoder-kernel-size-list [3] --decoder-kernel-size-list [3]"
    return Row("Dynamic Conv", paper, f"--arch {arch} {kinds} {flags}", tiny=kernels)


def _alternatives(arch: str, inner: int, papers: tuple[str, str, str], rpr: str) -> tuple[Row, ...]:
    """Return the rows of other papers that replace the encoder's self-attention.

    Args:
        arch: architecture whose widths they have.
        inner: features within their feed-forward sublayers.
        papers: published scores.
        rpr: flags of Shaw et al. (2018, section 4.1) for this size.
    """
    stock = f"{arch} --encoder-ffn-embed-dim {inner} --decoder-ffn-embed-dim {inner}"
    plain = "--decoder-sublayers san,cross,ffn"
    window = f"--encoder-sublayers masked,ffn {plain} --attention-masks window:5"
    positions = f"--encoder-sublayers rpr,ffn --decoder-sublayers rpr,cross,ffn {rpr}"
    return rows(f"""
        Convolutional Transformer | {papers[0]} | {stock} {window}
        Local Transformer | {papers[1]} | {stock} --encoder-sublayers gaussian,ffn {plain}
        Relative Transformer | {papers[2]} | {stock} {positions}""")


RECIPES = (
    GenerationRecipe(
        "dman/cnn_dailymail",
        "DMAN, Table 2: CNN/Daily Mail",
        """\
News summaries. DMAN, SAN, FFN on both sides with half the Transformer's feed-forward width, without
copying or coverage. LEAD-3 is the first three sentences of the news. The paper's numbers of the
other models are from other papers. Its text gives 50 as the maximum length of a summary; in the
published script, as is usual here, it is the minimum.""",
        (
            Row("LEAD-3", "40.42 17.62 36.67 31.57", lead=3),
            _dynamic("39.84 16.25 36.73 30.94", "lightconv_iwslt_de_en", _SUMMARIZATION_SIZE),
            *_summarizers("39.50 16.06 36.63 30.73", "40.98 18.29 37.88 32.38"),
        ),
        CNN_DAILYMAIL,
    ),
    GenerationRecipe(
        "dman/gigaword",
        "DMAN, Table 2: Gigaword",
        "Headlines of first sentences. Like dman/cnn_dailymail, on shorter text.",
        _summarizers("37.57 18.90 34.69 30.38", "38.28 19.46 35.46 31.06"),
        GIGAWORD,
    ),
    GenerationRecipe(
        "dman/iwslt14",
        "DMAN, Table 1: IWSLT14 German to English (small)",
        """\
The encoder's layers are DMAN, SAN, FFN with half the Transformer's feed-forward width: 37M
parameters, the Transformer has 36M. Tokenised, case-insensitive BLEU. Warm-up (16,000 updates) and
length (250 epochs) are the published script's; the paper's text has 8,000 and 80,000 updates:
    --max-update 80000 -- --warmup-updates 8000
The other numbers are from other papers. The Transformer with fairseq's documented settings is:
    --rows Transformer -- --lr 5e-4 --warmup-updates 4000""",
        (
            *rows(f"Transformer | 34.4 | {_STOCK_SMALL}"),
            _dynamic("35.2", "lightconv_iwslt_de_en"),
            *_forms("DMAN | 36.3 | dman_iwslt_de_en"),
        ),
        IWSLT14,
    ),
    GenerationRecipe(
        "dman/table3_sublayers",
        "DMAN, Table 3: the order of the sublayers (IWSLT14 German to English)",
        """\
The encoder's layers vary; the decoder's are SAN, cross attention, FFN, as in the published
configuration, whose score is that of C#5. Tokenised, case-insensitive BLEU.""",
        _forms("""
            C#1 | 35.51 | dman_iwslt_de_en --encoder-sublayers ffn,san,ffn
            C#2 | 35.66 | dman_iwslt_de_en --encoder-sublayers san,san,ffn
            C#3 | 35.86 | dman_iwslt_de_en --encoder-sublayers dman,dman,ffn
            C#4 | 35.91 | dman_iwslt_de_en --encoder-sublayers san,dman,ffn
            C#5 | 36.35 | dman_iwslt_de_en"""),  # C#5: dman,san,ffn
        IWSLT14,
    ),
    GenerationRecipe(
        "dman/table4_static_masks",
        "DMAN, Table 4: static and dynamic masks (IWSLT14 German to English)",
        """\
SMAN attends to as many tokens on each side as the square root of half the sentence's length (1), or
to four (2). Tokenised, case-insensitive BLEU.""",
        (
            *rows(f"Transformer | 34.40 | {_STOCK_SMALL}"),
            *_forms(f"""
                SMAN1 | 35.52 | {_SMAN} --sman-radius sqrt
                SMAN2 | 35.55 | {_SMAN} --sman-radius 4
                DMAN  | 36.35 | dman_iwslt_de_en"""),
        ),
        IWSLT14,
    ),
    GenerationRecipe(
        "dman/table5_locality",
        "DMAN, Table 5: attention within 1, 2 and 4 tokens (IWSLT14 German to English)",
        """\
Trains DMAN (released) of Table 4, or reuses it from the same --out, and measures on the test set
the share of attention near the query in layers 1, 3 and 6 of the encoder (eq. 13): percentages by
layer.""",
        _forms("DMAN | 36.35 | dman_iwslt_de_en")[:1],
        IWSLT14,
        Locality(
            (
                Row("DMAN 1", "76.58 60.43 60.86"),
                Row("SAN 1", "12.80 40.39 45.55"),
                Row("DMAN 2", "86.17 75.56 73.89"),
                Row("SAN 2", "18.73 45.62 52.72"),
                Row("DMAN 4", "95.09 86.20 85.58"),
                Row("SAN 4", "30.38 55.17 62.77"),
            ),
            layers=(1, 3, 6),
        ),
    ),
    GenerationRecipe(
        "dman/wmt14_base",
        "DMAN, Table 1: WMT14 English to German (base)",
        """\
DMAN, SAN, FFN on both sides with half the Transformer's feed-forward width: 63M parameters, the
Transformer has 62M. Three alternatives of the table are from their own papers: attention within
five tokens on each side; a learned Gaussian window; relative positions, 16 on each side, with
embeddings for each head. The first two papers restrict only the lower layers, here all encoder
layers are restricted; the first also attends across neighboring heads. The length is the published
script's, 220 epochs; the paper's text: --max-update 80000. The data is the script's, too: News
Commentary v12, pairs of 1 to 80 words. Tokenised, cased BLEU with compounds split, as in the
published test script.""",
        (
            *rows("Transformer | 27.3 | transformer_wmt_en_de --activation-dropout 0.1"),
            *_alternatives(
                "dman_wmt_en_de",
                2048,
                ("28.2", "28.5", "26.8"),
                "--rpr-per-head --rpr-max-distance 16",
            ),
            *_forms("DMAN | 29.1 | dman_wmt_en_de"),
        ),
        WMT14_BASE,
    ),
    GenerationRecipe(
        "dman/wmt14_big",
        "DMAN, Table 1: WMT14 English to German (big)",
        """\
Like dman/wmt14_base with twice the widths and heads: 215M parameters, the Transformer has 213M.
Relative positions are 8 on each side, with embeddings shared by all heads. Scaling NMT is fairseq's
Transformer with its example's training for large batches, on the data and for the updates of this
table. BLEU as in dman/wmt14_base.""",
        (
            *rows(
                "Transformer | 28.4 | transformer_wmt_en_de_big --activation-dropout 0.1"
                f" {_NORMS_BEFORE}"
            ),
            *_alternatives(
                "dman_wmt_en_de_big", 4096, ("28.7", "29.2", "29.2"), "--rpr-max-distance 8"
            ),
            # fairseq's examples/scaling_nmt, with its learning rate for large batches.
            *rows(
                "Scaling NMT | 29.3 | transformer_vaswani_wmt_en_de_big --attention-dropout 0"
                " --lr 1e-3 --warmup-updates 4000"
            ),
            _dynamic(
                "29.7",
                "lightconv_wmt_en_de_big",
                f"--encoder-glu 1 --decoder-glu 1 {_NORMS_BEFORE}",
            ),
            *_forms("DMAN | 30.4 | dman_wmt_en_de_big"),
        ),
        WMT14_BIG,
    ),
)
