import json
import socket
import threading
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inspection.page import server as server_module
from fairseq_posattn.inspection.page.server import LookServer


@pytest.fixture
def server(classifier):
    with LookServer(classifier(encoder="mpsan"), [], port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server):
    """``ask("a b")``: status and answer."""

    def ask(text=None, *, body=None, method="POST", path="/look", **headers):
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        body = json.dumps({"text": text}) if body is None else body
        headers = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection.request(method, path, body if method == "POST" else None, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        is_json = response.getheader("Content-Type").startswith("application/json")
        return response.status, json.loads(content) if is_json else content.decode()

    return ask


def test_the_page_has_a_field_to_type_into(ask):
    status, page = ask(method="GET", path="/")
    assert status == 200
    assert '"asks":"A sentence"' in page and "connect-src 'self'" in page


def test_what_is_typed_is_looked_at(ask, server):
    status, answer = ask("a b\nd")
    assert status == 200
    assert answer["sentence"] == json.loads(json.dumps(server.view("a b d")))
    assert answer["model"] == json.loads(json.dumps(server.view.description()))


def test_a_pair_is_typed_in_two_lines(classifier):
    view = classifier(pairs=True, encoder="mpsan")
    with LookServer(view, [], port=0) as server:
        assert '"asks":"Two sentences, a line each"' in server.page.decode()
        threading.Thread(target=server.handle_request).start()
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        body = json.dumps({"text": "a b\n\nd\n"})
        connection.request("POST", "/look", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
    assert answer["sentence"]["rows"] == {"first": ["a", "b"], "second": ["d"]}


def test_what_is_typed_comes_back_as_it_was(ask):
    text = "</script><b>a</b> \u2028猫"
    status, answer = ask(text)
    assert status == 200
    assert answer["sentence"]["text"].split() == text.split()


@pytest.mark.parametrize(
    "text, error",
    [
        ("", "there are no words in it"),
        (" \n\t", "there are no words in it"),
        ("a\tb", "the model needs one sentence, not 2"),
        ("a " * 40, "41 tokens with the end symbol"),
        ("a" * 2001, "the text is longer than 2,000 characters"),
        ("a" * 9001, "the text is longer than 2,000 characters"),
        ("\ud800", "send a JSON object with a text"),
        (3, "send a JSON object with a text"),
        (None, "send a JSON object with a text"),
    ],
)
def test_what_cannot_be_taken_is_told(ask, text, error):
    status, answer = ask(text)
    assert status == 400
    assert answer["error"].startswith(error)


@pytest.mark.parametrize("body", ["", "{", "[]", "[" * 8000, '{"words": "a"}', b"\xff"])
def test_what_is_no_json_of_a_text_is_told(ask, body):
    assert ask(body=body) == (400, {"error": "send a JSON object with a text"})


def test_a_sentence_with_more_attention_than_a_browser_takes(ask, monkeypatch):
    monkeypatch.setattr(server_module, "MOST_WEIGHTS", 3)
    assert ask("a b") == (400, {"error": "the page has no room for all its weights"})


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.com"},
        {"Origin": "http://example.com"},
        {"Origin": "null"},
    ],
)
def test_other_pages_may_not_ask(ask, headers):
    assert ask("a b", **headers)[0] == 403
    assert ask(method="GET", path="/", **headers)[0] == 403


def test_a_form_of_another_page_may_not_ask(ask):
    assert ask(body="text=a", Content_Type="application/x-www-form-urlencoded")[0] == 400
    assert ask(body='{"text": "a"}', Content_Type="text/plain")[0] == 400


def test_there_is_nothing_else(ask):
    assert ask(method="GET", path="/../etc/passwd")[0] == 404
    assert ask("a", path="/other")[0] == 404


def test_it_answers_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_a_browser_that_says_nothing_holds_nobody_up(ask, server):
    with socket.create_connection(("127.0.0.1", server.server_port)):
        assert ask("a b")[0] == 200


def test_connections_wait_for_a_busy_server(classifier):
    with LookServer(classifier(encoder="mpsan"), [], port=0) as server, ExitStack() as stack:
        for _ in range(60):  # none is accepted yet
            address = ("127.0.0.1", server.server_port)
            stack.enter_context(socket.create_connection(address, timeout=0.5))


def test_a_text_that_is_cut_is_reported(translator):
    view = translator(max_source_positions=4)
    with LookServer(view, [], port=0) as server:
        assert "notice" not in server.look("a b c")["sentence"]
        sentence = server.look("a b c d e")["sentence"]
    assert sentence["notice"] == "cut to the 4 subwords that the model reads"
    assert sentence["rows"]["source"] == ["a", "b", "c", "</s>"]


def test_a_port_that_is_taken_is_one_line(classifier, server):
    port = server.server_port
    with pytest.raises(UsageError, match=f"^--serve {port}: Address already in use: name another"):
        LookServer(classifier(encoder="mpsan"), [], port)
