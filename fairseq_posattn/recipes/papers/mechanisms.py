"""Tables of the mechanisms in a translation model's encoder, the same on several corpora."""

from dataclasses import replace

from fairseq_posattn.recipes.recipe import Generation, GenerationRecipe, Row


def alike(*names: str) -> dict[str, str]:
    """Return rows named like their models."""
    return dict(zip(names, names, strict=True))


# DMAN as released for translation; the architectures have the paper form.
_RELEASED_HEADS, _RELEASED_START = "--heads-activation relu", "--start mans"
RELEASED = f"{_RELEASED_HEADS} {_RELEASED_START}"

SIDE_BY_SIDE = "Mechanisms in translation"
ALL = alike(
    *("Transformer", "DMAN", "DMAN (text)", "SMAN1"),
    *("DA-Transformer", "MTSA", "RPR", "Transformer-XL"),
)
ABOUT = """\
The mechanisms in the encoder, with the same settings, updates and seeds. Parameters agree within
0.5%, by narrower feed-forward sublayers of mechanisms with more parameters. DMAN and SMAN1 have the
released form, DMAN (text) has the paper form."""


def table(
    name: str,
    title: str,
    corpus: str,
    about: str,
    models: dict[str, str],
    full: Generation,
    small: Generation,
) -> GenerationRecipe:
    """Return a recipe with its small form.

    Args:
        name: as typed.
        title: of the table, without size and corpus.
        corpus: its name in the title.
        models: names of the models by row.
        full, small: settings of the two forms.
    """

    def recipe(settings: Generation, form: str, flags: dict[str, str]) -> GenerationRecipe:
        return GenerationRecipe(
            name,
            title=f"{title}{form}: {corpus}",
            about=about,
            settings=settings,
            rows=tuple(Row(row, flags=flags[model]) for row, model in models.items()),
            prepares=True,
        )

    smaller = recipe(small, ", small models", _flags(width=128, layers=2))
    return replace(recipe(full, "", _flags(width=512, layers=6)), small=smaller)


def _flags(width: int, layers: int) -> dict[str, str]:
    """Return each model's flags; the Transformer's feed-forward sublayers have twice the width."""

    def size(encoder: int, decoder: int) -> str:
        return "".join(
            f" --{side}-layers {layers} --{side}-embed-dim {width} --{side}-ffn-embed-dim {inner}"
            f" --{side}-attention-heads 4"
            for side, inner in (("encoder", encoder), ("decoder", decoder))
        )

    wide = 2 * width
    custom = "--arch posattn_transformer --encoder-sublayers"
    dman = f"--arch dman_iwslt_de_en{size(width, width)}"
    released = f"{dman} {RELEASED}"
    static = f"{released} --encoder-sublayers sman,san,ffn --sman-radius"
    return {
        "Transformer": f"--arch transformer_iwslt_de_en{size(wide, wide)}",
        "DMAN": released,
        "DMAN (text)": dman,
        "DMAN (heads as in the text)": f"{dman} {_RELEASED_START}",
        "DMAN (start as in the text)": f"{dman} {_RELEASED_HEADS}",
        "SMAN1": f"{static} sqrt",
        "SMAN2": f"{static} 4",
        "DA-Transformer": f"--arch da_transformer_iwslt_de_en{size(wide, wide)}",
        "MTSA": f"--arch mtsa_transformer_iwslt_de_en{size(wide * 7 // 8, wide)}",
        "RPR": f"{custom} rpr,ffn{size(wide, wide)}",
        "Transformer-XL": f"{custom} transformer_xl,ffn{size(wide * 3 // 4, wide)}",
        "C#1": f"{released} --encoder-sublayers ffn,san,ffn",
        "C#2": f"{released} --encoder-sublayers san,san,ffn",
        "C#3": f"{released} --encoder-sublayers dman,dman,ffn",
        "C#4": f"{released} --encoder-sublayers san,dman,ffn",
    }
