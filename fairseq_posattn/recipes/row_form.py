"""The form of a table's row as JSON, so that a malformed file is one line and adds no markup."""

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError


def _is_text(value: object) -> bool:
    """Return whether a page can show it as it is: one line without markup of HTML or code."""
    return isinstance(value, str) and value.isprintable() and not set("<>`") & set(value)


def _is_code(value: object) -> bool:
    """Return whether a page can show it between backticks."""
    return isinstance(value, str) and value.isprintable() and "`" not in value


def _is_name(value: object) -> bool:
    """Return whether it can stand in a cell of a Markdown table."""
    return _is_text(value) and "|" not in str(value)


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and isfinite(value))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _is_none(value: object) -> bool:
    return value is None


# The form of each part of a row: a check, a list of such, either of a tuple, or by name.
ANY = "any other name"
FORM: dict[str, Any] = {
    **dict.fromkeys(("table", "row"), _is_name),
    **dict.fromkeys(("data", "metric", "hardware", "precision"), _is_text),
    **dict.fromkeys(("date", "note"), _is_text),
    **dict.fromkeys(("parameters", "parameters without word vectors", "updates"), _is_count),
    **dict.fromkeys(("seeds", "folds"), [_is_count]),
    **dict.fromkeys(("paper's deviation", "forms of the last seed"), {ANY: _is_number}),
    "signature": _is_code,
    "command": (_is_code, _is_none),
    "paper": {ANY: (_is_number, _is_none)},
    "scores": {ANY: [_is_number]},
    "intervals": {ANY: _is_pair},
    "versions": {ANY: (_is_text, _is_none)},
    "tuning": {
        **{"seeds": [_is_count], "fold": _is_count, "updates": _is_count, "metric": _is_text},
        **{"tried": {ANY: (_is_number, _is_none)}, "chosen": _is_number},
    },
    "compared": {
        **{"with": _is_name, "sentences": _is_count, "folds": _is_count, "runs": _is_pair},
        "tests": _is_text,
        "metrics": {
            ANY: {
                **{"difference": _is_number, "interval": _is_pair},
                **{"p": _is_number, "p_randomisation": _is_number},
            }
        },
    },
}
OPTIONAL = {ANY, "fold", "folds", "sentences", "interval", "p_randomisation"}


def _has_form(value: Any, form: Any) -> bool:
    if isinstance(form, tuple):
        return any(_has_form(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(one, form[0]) for one in value)
    if isinstance(form, dict):
        return (
            isinstance(value, dict)
            and form.keys() - OPTIONAL <= value.keys()
            and all(map(_is_name, value))
            and all(_has_form(one, form.get(name, form.get(ANY))) for name, one in value.items())
        )
    return form is None or bool(form(value))


def require_form(row: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError, which names the file or folder, unless each known part has its form."""
    for key, value in row.items():
        if not _has_form(value, FORM.get(key)):
            shown = "malformed" if isinstance(value, dict | list) else json.dumps(value)[:80]
            raise UsageError(
                f"{path}: {key} is {shown}, but must be as results/README.md says; "
                "remove the file or correct it"
            )
