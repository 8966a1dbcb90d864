"""The page as one safe file."""

import base64
import hashlib
import json
import re

import pytest

from fairseq_posattn.inspection.page.page import as_script, page

MODEL = {"checkpoint": "c.pt", "about": "", "languages": {}, "places": []}


def data_of(text):
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1]
    )


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "<!-- <script>",
        "]]>&amp;&lt;",
        "@DATA@ @SCRIPT@ @STYLE@",
        "\u2028 \0 \\u003c 猫 \U0001f63a",
    ],
)
def test_any_text_stays_data(text):
    sentence = {"text": text, "rows": {}, "attention": [], "outcome": {"label": text}}
    made = page(MODEL, [sentence])
    plain = page(MODEL, [sentence | {"text": "", "outcome": {"label": ""}}])
    assert data_of(made)["sentences"] == [sentence]
    for sign in ("<script", "</script", "<!--"):
        assert made.count(sign) == plain.count(sign)


def test_a_file_name_may_have_no_encoding():
    text = page({"path": "model\udcff.pt"}, [])
    assert data_of(text)["model"] == {"path": "model?.pt"}
    text.encode()


def test_the_page_loads_nothing_and_allows_only_its_own_script_and_style():
    made = page(MODEL, [])
    without_namespace = made.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|\bsrc=|\bhref=|url\(|@import|\bimport\b", without_namespace)
    assert "default-src 'none'" in made and "connect-src 'none'" in made
    assert "connect-src 'self'" in page(None, [], asks="A sentence")
    for name in ("script", "style"):
        (part,) = re.findall(rf"<{name}>(.*?)</{name}>", made, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}';" in made


def test_nan_is_refused():
    with pytest.raises(ValueError):
        as_script([float("nan")])
