"""Multi30k, German to English: first models, all mechanisms, DMAN's stackings, masks and forms."""

from dataclasses import replace

from fairseq_posattn.recipes.papers.mechanisms import (
    ABOUT,
    ALL,
    RELEASED,
    SIDE_BY_SIDE,
    alike,
    table,
)
from fairseq_posattn.recipes.recipe import Generation, GenerationRecipe, Locality, Row

_SHARED = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 1e-4"
    " --lr-scheduler inverse_sqrt --lr 1e-3"
    " --encoder-normalize-before --decoder-normalize-before --share-all-embeddings"
)
FULL = Generation(
    regime="full",
    corpus="multi30k",
    preparation="translation multi30k",
    source="de",
    target="en",
    training=_SHARED
    + " --warmup-updates 1000 --dropout 0.3 --attention-dropout 0.1 --activation-dropout 0.1",
    max_tokens=8192,
    batches=1,
    max_update=2500,
    save_interval=125,
    checkpoint="average",
    decoding="--beam 5 --max-len-a 2 --max-len-b 10",
    scoring="bleu --forms tokenised sacrebleu --detokenize en",
    metrics=("bleu",),
    metric="BLEU of tokenised, lower-cased text",
)
_SMALL = replace(
    FULL,
    regime="small",
    corpus="multi30k-4000",
    preparation="translation multi30k --bpe-operations 4000",
    training=_SHARED
    + " --warmup-updates 400 --dropout 0.2 --attention-dropout 0 --activation-dropout 0",
    max_tokens=1024,
    max_update=2800,
    save_interval=200,
)
_ABOUT = """\
A Transformer, DMAN in its released form and in its paper form (text), with the same settings and
updates. The data is prepared first, and downloaded without --source. --small uses models that a CPU
core trains in half an hour each: 3+3 layers, 256 wide. BLEU on the 2016 Flickr test set."""

# For several seeds of every mechanism on a CPU. Validation selected this learning rate for all
# tuned models.
SMALLER = replace(
    _SMALL,
    regime="smaller",
    training=_SMALL.training.replace("--dropout 0.2", "--dropout 0.1").replace("1e-3", "6e-3"),
    max_update=2000,
    save_interval=125,
)


def _rows(dman: str = "", stock: str = "") -> tuple[Row, ...]:
    return (
        Row("Transformer", flags=f"--arch transformer_iwslt_de_en{stock}"),
        Row("DMAN", flags=f"--arch dman_iwslt_de_en{dman} {RELEASED}"),
        Row("DMAN (text)", flags=f"--arch dman_iwslt_de_en{dman}"),
    )


def _size(feed_forward: int) -> str:
    return "".join(
        f" --{side}-layers 3 --{side}-embed-dim 256 --{side}-ffn-embed-dim {feed_forward}"
        for side in ("encoder", "decoder")
    )


def _table(name: str, title: str, about: str, models: dict[str, str]) -> GenerationRecipe:
    about = f"{about} --small: 2+2 layers, 128 wide. Tested on 2016 Flickr."
    return table(f"multi30k/{name}", title, "Multi30k", about, models, FULL, SMALLER)


def _near(recipe: GenerationRecipe, layers: tuple[int, ...]) -> GenerationRecipe:
    """Return the recipe with the locality of its DMAN's attention in these layers."""
    windows = (1, 2, 4)
    rows = tuple(Row(f"{sublayer} {window}") for window in windows for sublayer in ("DMAN", "SAN"))
    return replace(recipe, locality=Locality(rows, layers, windows))


def _locality() -> GenerationRecipe:
    """Return DMAN's Table 5 for the DMAN of the other tables."""
    recipe = _table(
        "locality",
        "Attention within 1, 2 and 4 tokens",
        """\
DMAN's Table 5 on Multi30k: trains the DMAN of the other tables, or reuses it from the same --out,
and measures on the test set the share of attention near the query in the encoder's layers 1, 3 and
6 (--small: 1 and 2; eq. 13): percentages by layer.""",
        alike("DMAN"),
    )
    assert recipe.small is not None
    return replace(_near(recipe, (1, 3, 6)), small=_near(recipe.small, (1, 2)))


RECIPES = (
    GenerationRecipe(
        "multi30k/run",
        title="First models: Multi30k",
        about=_ABOUT,
        settings=FULL,
        rows=_rows(),
        prepares=True,
        small=GenerationRecipe(
            "multi30k/run",
            title="First models, of 5 million parameters: Multi30k",
            about=_ABOUT,
            settings=_SMALL,
            # Half the feed-forward width compensates DMAN's additional attention sublayer.
            rows=_rows(stock=_size(512), dman=_size(256)),
            prepares=True,
        ),
    ),
    _table("mechanisms", SIDE_BY_SIDE, ABOUT, ALL),
    _table(
        "stackings",
        "The order of DMAN's sublayers",
        "DMAN's Table 3 on Multi30k: the encoder's layers vary.",
        {**alike("C#1", "C#2", "C#3", "C#4"), "C#5": "DMAN"},
    ),
    _table(
        "static_masks",
        "Static and dynamic masks",
        """\
DMAN's Table 4 on Multi30k: SMAN attends to as many tokens on each side as the square root of half
the sentence's length (1), or to four (2).""",
        alike("Transformer", "SMAN1", "SMAN2", "DMAN"),
    ),
    _table(
        "forms",
        "The code's DMAN and the text's",
        """\
DMAN's released form has ReLU on the concatenated heads of all attention, and its initialization is
different; the paper form has ReLU in the mask attention only. Both forms, and two between them.""",
        alike(
            *("Transformer", "DMAN", "DMAN (heads as in the text)"),
            *("DMAN (start as in the text)", "DMAN (text)"),
        ),
    ),
    _locality(),
)
