"""The page as one safe file; answers of ``posattn look --serve``, and requests it refuses."""

import base64
import hashlib
import json
import re
import socket
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inspection.page import server as server_module
from fairseq_posattn.inspection.page.server import LookServer, as_script, page

MODEL = {"checkpoint": "c.pt", "about": "", "languages": {}, "layers": []}


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


@contextmanager
def serving(view):
    with LookServer(view, [], port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(classifier):
    with serving(classifier(encoder="mpsan")) as server:
        yield server


@pytest.fixture
def ask(server):
    """Return ``ask("a b")``: status and answer."""
    return partial(request, server)


def request(server, text=None, *, body=None, method="POST", path="/look", **headers):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    body = json.dumps({"text": text}) if body is None else body
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers = {"Content-Type": "application/json"} | headers
    connection.request(method, path, body if method == "POST" else None, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    is_json = response.getheader("Content-Type").startswith("application/json")
    return response.status, json.loads(content) if is_json else content.decode()


def test_the_page_has_a_field_for_text(ask):
    status, page = ask(method="GET", path="/")
    assert status == 200
    assert '"asks":"A sentence"' in page and "connect-src 'self'" in page
    assert '"checkpoint":"folder/checkpoint.pt","about":"mpsan, ' in page


@pytest.mark.parametrize("text", ["a b\nd", "</script><b>a</b> \u2028猫"])
def test_a_text_is_answered_with_its_attention(ask, server, text):
    status, answer = ask(text)
    assert status == 200
    line = " ".join(text.splitlines())
    assert answer["sentence"] == json.loads(json.dumps(server.view(line)))
    assert answer["model"] == json.loads(json.dumps(server.view.description()))


def test_a_pair_has_a_line_for_each_sentence(classifier):
    with serving(classifier(pairs=True, encoder="mpsan")) as server:
        assert '"asks":"Two sentences, a line each"' in server.page.decode()
        _, answer = request(server, "a b\n\nd\n")
        for text in ("a b", "a\nb\nd"):
            error = {"error": "type two sentences, a line each"}
            assert request(server, text) == (400, error)
    assert answer["sentence"]["rows"] == {"first": ["a", "b"], "second": ["d"]}


NO_TEXT = "send a JSON object with a text"
TOO_LONG = "the text is longer than 2,000 characters"


@pytest.mark.parametrize(
    "text, error",
    [
        ("", "there are no words in it"),
        (" \n\t", "there are no words in it"),
        ("a" * 2001, TOO_LONG),
        ("a" * 9001, TOO_LONG),
        ("\ud800", NO_TEXT),
        (3, NO_TEXT),
        (None, NO_TEXT),
    ],
)
def test_a_bad_text_is_one_line(ask, text, error):
    status, answer = ask(text)
    assert status == 400
    assert answer["error"].startswith(error)


@pytest.mark.parametrize("body", ["", "[]", "[" * 8000, '{"words": "a"}', b"\xff"])
def test_a_body_without_text_is_refused(ask, body):
    assert ask(body=body) == (400, {"error": NO_TEXT})
    assert ask(body='{"text": "a"}', Content_Type="text/plain") == (400, {"error": NO_TEXT})


def test_a_text_with_too_many_weights_is_refused(ask, monkeypatch):
    monkeypatch.setattr(server_module, "MOST_WEIGHTS", 3)
    reason = "the page has no room for all its weights; shorten the text"
    assert ask("a b") == (400, {"error": reason})


@pytest.mark.parametrize(
    "headers", [{"Host": "example.com"}, {"Origin": "http://example.com"}, {"Origin": "null"}]
)
def test_requests_of_other_pages_are_refused(ask, headers):
    assert ask("a b", **headers)[0] == 403
    assert ask(method="GET", path="/", **headers)[0] == 403


def test_other_paths_do_not_exist(ask):
    assert ask(method="GET", path="/../etc/passwd")[0] == 404
    assert ask("a", path="/other")[0] == 404


def test_idle_connections_do_not_block_others(ask, server, classifier):
    assert server.server_address[0] == "127.0.0.1"
    with socket.create_connection(("127.0.0.1", server.server_port)):
        assert ask("a b")[0] == 200
    with LookServer(classifier(encoder="mpsan"), [], port=0) as busy, ExitStack() as stack:
        for _ in range(60):  # none is accepted yet
            address = ("127.0.0.1", busy.server_port)
            stack.enter_context(socket.create_connection(address, timeout=0.5))


def test_a_cut_text_has_a_notice(translator, classifier):
    with LookServer(translator(max_source_positions=4), [], port=0) as server:
        assert "notice" not in server.look("a b c")["sentence"]
        sentence = server.look("a b c d e")["sentence"]
    assert sentence["notice"] == "cut to the 3 subwords that the model reads"
    assert sentence["rows"]["source"] == ["a", "b", "c", "</s>"]
    with LookServer(classifier(encoder="mpsan"), [], port=0) as server:
        sentence = server.look("a " * 40)["sentence"]
    assert sentence["notice"] == "cut to the 16 tokens that the model reads"
    assert sentence["rows"]["words"] == ["a"] * 16


def test_a_wrong_port_is_one_line(server):
    for port, reason in ((server.server_port, "Address already in use"), (70000, ".*0-65535.*")):
        with pytest.raises(UsageError, match=f"^--serve {port}: {reason}: name another"):
            LookServer(server.view, [], port)
