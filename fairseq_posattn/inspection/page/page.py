"""The page as one file, with style, script and data, that loads nothing else."""

import base64
import hashlib
import json
from importlib import resources


def page(model: dict | None, sentences: list[dict], *, asks: str = "") -> str:
    """Return a complete HTML page.

    Args:
        model, sentences: see :mod:`.view`.
        asks: label of the field for more sentences, if a server answers them; default none.
    """
    html, style, script = (
        resources.files(__package__).joinpath(f"page.{kind}").read_text(encoding="utf-8")
        for kind in ("html", "css", "js")
    )
    data = as_script({"model": model, "sentences": sentences, "asks": asks})
    connect = "'self'" if asks else "'none'"
    # Whatever the texts contain, only the page's own script and style run, and nothing is loaded.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    parts = {"POLICY": policy, "STYLE": style, "DATA": data, "SCRIPT": script}
    for name, part in parts.items():
        before, after = html.split(f"@{name}@")
        parts[name] = before + part
        html = after
    return "".join(parts.values()) + html


def as_script(content) -> str:
    """Return JSON that is safe inside an HTML script element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode(errors="replace").decode()  # names of files may hold halves of characters
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
