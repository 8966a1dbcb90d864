"""Checks of a row of a result file, so that malformed values reach neither a table nor a page."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError

ANY = "any name"
# The form of each value: a type's name, one of several, [each item], or {name: value}.
NUMBERS: Any = {ANY: "number"}
FORM: dict[str, Any] = {
    **dict.fromkeys(("table", "row"), "cell"),
    **dict.fromkeys(("data", "metric", "hardware", "precision", "date", "note"), "text"),
    **dict.fromkeys(("parameters", "parameters without word vectors", "updates"), "count"),
    **dict.fromkeys(("seeds", "folds"), ["count"]),
    **dict.fromkeys(("paper's deviation", "forms of the last seed"), NUMBERS),
    "signature": "code",
    "command": ("code", "none"),
    "paper": {ANY: ("number", "none")},
    "scores": {ANY: ["number"]},
    "intervals": {ANY: "pair"},
    "versions": {ANY: ("text", "none")},
    "tuning": {
        **{"seeds": ["count"], "fold": "count", "updates": "count", "metric": "text"},
        **{"tried": {ANY: ("number", "none")}, "chosen": "number"},
    },
    "compared": {
        **{"with": "cell", "sentences": "count", "folds": "count", "runs": "pair"},
        "tests": "text",
        "metrics": {
            ANY: {
                **{"difference": "number", "interval": "pair"},
                **{"p": "number", "p_randomisation": "number"},
            }
        },
    },
}
OPTIONAL = {ANY, "fold", "folds", "sentences", "interval", "p_randomisation"}


def _is(value: object, kind: str) -> bool:
    if kind == "none":
        return value is None
    if kind == "pair":
        return isinstance(value, list) and len(value) == 2 and _has_form(value, ["number"])
    if kind in ("count", "number"):
        if type(value) is float:
            return kind == "number" and isfinite(value)
        return type(value) is int and (kind == "number" or value >= 0)
    # Text is one line without markup, code without its delimiter, a cell without that of columns.
    markup = {"text": "<>`", "code": "`", "cell": "<>`|"}[kind]
    return isinstance(value, str) and value.isprintable() and not set(markup) & set(value)


def _has_form(value: Any, form: Any) -> bool:
    if isinstance(form, tuple):
        return any(_has_form(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(one, form[0]) for one in value)
    if isinstance(form, dict):
        return (
            isinstance(value, dict)
            and form.keys() - OPTIONAL <= value.keys()
            and all(_is(name, "cell") for name in value)
            and all(_has_form(one, form.get(name, form.get(ANY))) for name, one in value.items())
        )
    return form is None or _is(value, form)


def require_form(row: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError, naming the file or folder, if a known value has another form."""
    for key, value in row.items():
        if not _has_form(value, FORM.get(key)):
            shown = "malformed" if isinstance(value, dict | list) else json.dumps(value)[:80]
            raise UsageError(
                f"{path}: {key} is {shown}, but must be as results/README.md says; "
                "remove the file or correct it"
            )
