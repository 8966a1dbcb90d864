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
def test_a_text_is_data_whatever_it_looks_like(text):
    sentence = {"text": text, "rows": {}, "attention": [], "outcome": {"label": text}}
    made = page(MODEL, [sentence])
    plain = page(MODEL, [sentence | {"text": "", "outcome": {"label": ""}}])
    assert data_of(made)["sentences"] == [sentence]
    for sign in ("<script", "</script", "<!--"):
        assert made.count(sign) == plain.count(sign)


def test_the_name_of_a_file_may_be_in_no_encoding():
    text = page({"path": "model\udcff.pt"}, [])
    assert data_of(text)["model"] == {"path": "model?.pt"}
    text.encode()


def test_it_asks_for_nothing_else():
    made = page(MODEL, [])
    without_namespace = made.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|\bsrc=|\bhref=|url\(|@import|\bimport\b", without_namespace)
    assert "default-src 'none'" in made and "connect-src 'none'" in made
    assert "connect-src 'self'" in page(None, [], asks="A sentence")


@pytest.mark.parametrize(
    "directive, pattern",
    [
        ("script-src", r"<script>(.*?)</script>"),
        ("style-src", r"<style>(.*?)</style>"),
    ],
)
def test_its_policy_lets_its_own_script_and_style_through(directive, pattern):
    made = page(MODEL, [])
    (part,) = re.findall(pattern, made, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
    assert f"{directive} 'sha256-{digest}';" in made


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValueError):
        as_script([float("nan")])
