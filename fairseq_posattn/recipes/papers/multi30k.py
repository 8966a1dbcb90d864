"""Multi30k, German to English: a first real model and its baseline, at full size and small."""

from dataclasses import replace

from fairseq_posattn.recipes.recipe import Generation, GenerationRecipe, Row

_SHARED = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    " --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 1e-4"
    " --lr-scheduler inverse_sqrt --lr 1e-3"
    " --encoder-normalize-before --decoder-normalize-before --share-all-embeddings"
)
_FULL = Generation(
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
    _FULL,
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
A plain Transformer and a DMAN Transformer with the same settings and as many updates. The data is
prepared first, which downloads it if there is no --source. --small takes models that a CPU core
trains in half an hour each: 3+3 layers, 256 wide. BLEU on the 2016 Flickr test."""


def _rows(dman: str = "", stock: str = "") -> tuple[Row, ...]:
    return (
        Row("Transformer", flags=f"--arch transformer_iwslt_de_en{stock}"),
        Row("DMAN", flags=f"--arch dman_iwslt_de_en{dman}"),
    )


def _size(feed_forward: int) -> str:
    return "".join(
        f" --{side}-layers 3 --{side}-embed-dim 256 --{side}-ffn-embed-dim {feed_forward}"
        for side in ("encoder", "decoder")
    )


RECIPES = (
    GenerationRecipe(
        "multi30k/run",
        title="Multi30k, German to English",
        about=_ABOUT,
        settings=_FULL,
        rows=_rows(),
        prepares=True,
        small=GenerationRecipe(
            "multi30k/run",
            title="Multi30k, German to English, small models",
            about=_ABOUT,
            settings=_SMALL,
            # A DMAN layer has one attention sublayer more: half the feed-forward width evens it.
            rows=_rows(stock=_size(512), dman=_size(256)),
            prepares=True,
        ),
    ),
)
