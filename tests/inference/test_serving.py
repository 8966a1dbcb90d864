"""``posattn serve``: the real server, called by LibreTranslate's client."""

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from small_translator import CHECKPOINT, EXPECTED, FIXTURE

from fairseq_posattn.inference import serving
from fairseq_posattn.inference.commands import serve
from fairseq_posattn.inference.serving import (
    Batches,
    Limits,
    Refused,
    _matching,
    _requested,
    application,
)

pytest.importorskip("uvicorn")
COMMAND = [sys.executable, "-m", "fairseq_posattn.cli", "serve", str(CHECKPOINT), "--cpu"]
COMMAND += ["--data", str(FIXTURE / "data"), "--port", "0"]


@contextmanager
def running(*arguments):
    """Yield the address of a server and its process."""
    server = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        *_, line = iter_until(server.stderr, "serving ")
        url = line.split()[-1]
        wait_for(url)
        yield url, server
    finally:
        server.kill()
        server.communicate()


def iter_until(lines, start):
    for line in lines:
        yield line
        if line.startswith(start):
            return
    raise AssertionError("the server has ended")


def wait_for(url):
    for _ in range(100):
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=5).read()
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError(f"no answer from {url}")


@pytest.fixture(scope="module")
def url():
    with running() as (url, _):
        yield url


def post(url, fields, headers=None):
    """Return the status and the answer to a request."""
    data = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    headers = {"Content-Type": "application/json"} | (headers or {})
    request = urllib.request.Request(f"{url}/translate", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def metrics_of(url):
    with urllib.request.urlopen(f"{url}/metrics") as response:
        lines = response.read().decode().splitlines()
    return dict(line.split() for line in lines if "#" not in line)


def test_clients_at_once_get_what_the_translator_answers(url, source):
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(url)
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]
    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(lambda text: client.translate(text, "de", "en"), source * 3))
    assert answers == EXPECTED * 3
    metrics = metrics_of(url)
    batches, lines = (int(metrics[f"posattn_{name}_total"]) for name in ("batches", "lines"))
    assert batches < lines == len(answers)
    assert int(metrics["posattn_waiting"]) == 0


def test_lists_lines_and_alternatives(url, source, translator):
    fields = {"q": [source[0], f"{source[1]}\n\n{source[2]}", ""], "source": "deu", "target": "en"}
    status, answer = post(url, fields | {"alternatives": 2})
    translated = [EXPECTED[0], f"{EXPECTED[1]}\n\n{EXPECTED[2]}", ""]
    assert (status, answer["translatedText"]) == (200, translated)
    assert [len(others) for others in answer["alternatives"]] == [2, 2, 0]
    assert EXPECTED[0] not in answer["alternatives"][0]
    _, answer = post(url, {"q": source[0], "source": "auto", "target": "en"})
    assert answer == {"translatedText": EXPECTED[0]}


@pytest.mark.parametrize(
    "fields, words",
    [
        (b"q=", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b'{"q": "l\xe4uft"}', "not UTF-8"),
        ({"source": "de", "target": "en"}, "q: must be a text or a list"),
        ({"q": ["A", 1], "source": "de", "target": "en"}, "q: must be a text or a list"),
        ({"q": "A", "source": "fr", "target": "en"}, "source: no model for 'fr'; choose from de"),
        ({"q": ["A", "\ud83d"], "source": "de", "target": "en"}, "q: has half of a surrogate"),
        ({"q": "A", "source": "de"}, "target: must be a language code"),
        ({"q": "A", "source": "de", "target": "en", "format": "html"}, "format: 'html'"),
        ({"q": "A", "source": "de", "target": "en", "alternatives": 5}, "a number from 0 to 4"),
        ({"q": "A", "source": "de", "target": "en", "alternatives": "9" * 5000}, "from 0 to 4"),
        ({"q": "A " * 2000, "source": "de", "target": "en"}, "subwords; split the text"),
    ],
)
def test_a_wrong_request_gets_the_reason(url, fields, words):
    status, answer = post(url, fields)
    assert status == 400 and words in answer["error"]


def test_a_form_is_answered_as_json_is(url, source):
    form = "application/x-www-form-urlencoded"
    status, answer = post(url, b"q=l%E4uft&source=de&target=en", {"Content-Type": form})
    assert status == 400 and "not UTF-8" in answer["error"]
    status, answer = post(url, b"q=A&q=B&source=de&target=en", {"Content-Type": form})
    assert status == 400 and "q: is given more than once" in answer["error"]
    for kind, text, expected in ((form, source[0], EXPECTED[0]), (form.title(), "", "")):
        fields = urllib.parse.urlencode({"q": text, "source": "de", "target": "en"}).encode()
        assert post(url, fields, {"Content-Type": kind}) == (200, {"translatedText": expected})


@pytest.mark.parametrize("between", ["\u2028", "\x85", "\r"])
def test_a_text_has_the_lines_of_a_file(url, source, between):
    fields = {"q": f"\ufeff{source[0]}\r\n{between.join(source[:2])}\n"}
    fields |= {"source": "de", "target": "en"}
    _, answer = post(url, {**fields, "q": " ".join(source[:2])})
    expected = f"{EXPECTED[0]}\n{answer['translatedText']}"
    assert post(url, fields) == (200, {"translatedText": expected})


def test_the_target_can_tell_the_source():
    pairs = [("de", "en"), ("en", "am"), ("fr", "en")]
    assert _requested({"source": "auto", "target": "am"}, pairs) == ("en", "am")
    with pytest.raises(Refused, match="cannot be detected; choose from de, fr"):
        _requested({"source": "auto", "target": "en"}, pairs)


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("en", "zh_TW", "choose from en to yue, en to zh-Hans, en to zh-Hant"),
        ("en", "zh", "choose from en to yue, en to zh-Hans, en to zh-Hant"),
        ("en", "zh_Hant_TW", ("en", "zh-Hant")),
        ("en_GB", "sr-RS", ("en", "sr")),
        ("eng", "srp", ("en", "sr")),
        ("en", "sr_latn", ("en", "sr-Latn")),
        ("pt", "fr", ("pt-PT", "fr")),
        ("por", "en", ("pt-BR", "en")),
    ],
)
def test_a_language_of_several_models_is_not_guessed(source, target, expected):
    codes = ("yue", "zh-Hans", "zh-Hant", "sr-Latn", "sr")
    pairs = [*(("en", code) for code in codes), ("pt-BR", "en"), ("pt-PT", "fr")]
    fields = {"source": source, "target": target}
    if isinstance(expected, tuple):
        assert _requested(fields, pairs) == expected
    else:
        with pytest.raises(Refused, match=expected):
            _requested(fields, pairs)


@pytest.mark.parametrize(
    "value, known, expected",
    [
        ("yue", ["zh"], []),
        ("nan_TW", ["zh", "zh-TW", "yue"], []),
        ("yue-HK", ["yue", "zh"], ["yue"]),
        ("yue", ["yue-HK", "zh-HK"], ["yue-HK"]),
        ("cmn", ["zh"], ["zh"]),
        ("zh", ["yue"], ["yue"]),
    ],
)
def test_cantonese_is_not_answered_in_mandarin(value, known, expected):
    assert _matching(value, known) == expected


def test_limits_and_a_clean_end():
    limits = ("--max-waiting", "3", "--max-body", "1000", "--max-len-b", "1")
    with running(*limits) as (url, server):
        fields = {"source": "de", "target": "en"}
        status, answer = post(url, fields | {"q": ["A"] * 4})
        assert status == 413 and "4 lines; send at most 3" in answer["error"]
        assert post(url, fields | {"q": "A" * 1000})[0] == 413
        assert post(url, fields | {"q": "A"})[0] == 200
        assert metrics_of(url)["posattn_longest_total"] == "1"
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def test_a_second_signal_ends_at_once(source):
    limits = ("--max-waiting", "20000", "--max-body", "1000000")
    with ThreadPoolExecutor(1) as threads, running(*limits) as (url, server):
        fields = {"q": source * (20_000 // len(source)), "source": "de", "target": "en"}
        answer = threads.submit(post, url, fields)
        while metrics_of(url)["posattn_waiting"] == "0":
            assert not answer.done()
        while server.poll() is None:  # two signals at once would be one
            server.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert server.returncode == 130 and answer.exception()
        assert not server.stderr.read()


def test_texts_beyond_the_limit_of_waiting_texts_are_refused(translator):
    async def fill():
        batches = Batches(translator, None, Limits(waiting=3), Counter())
        first = asyncio.create_task(batches.translate(["A", "B"]))  # nothing translates
        await asyncio.sleep(0.1)
        with pytest.raises(Refused, match="too many texts are waiting") as refused:
            await batches.translate(["C", "D"])
        first.cancel()
        return refused.value.status_code

    assert asyncio.run(fill()) == 429


def test_a_short_request_need_not_wait_for_a_long_one(translator, source):
    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batches = Batches(translator, pool, Limits(batch=2), Counter())
            waiting = [batches.translate(some) for some in (["", *source[:6]], source[6:7])]
            long, short = map(asyncio.create_task, waiting)
            task = asyncio.create_task(batches.run())
            await short
            assert not long.done()
            answers = [line.text for line in [*await long, *short.result()]]
            task.cancel()
        assert answers == ["", *EXPECTED[:7]]

    asyncio.run(ask())


def test_lines_that_are_translated_no_longer_wait(translator, source, monkeypatch):
    counts, waiting, translate_all = Counter(), [], translator.translate_all

    def count(*args):
        waiting.append(counts["waiting"])
        return translate_all(*args)

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batches = Batches(translator, pool, Limits(batch=2), counts)
            task = asyncio.create_task(batches.run())
            await batches.translate(["", *source[:6]])
            task.cancel()

    monkeypatch.setattr(translator, "translate_all", count)
    asyncio.run(ask())
    assert (waiting, counts["waiting"]) == ([7, 5, 3], 0)


def test_seconds_of_translation_are_not_those_of_waiting_for_another_model(translator, monkeypatch):
    counts, clock, translate_all = Counter(), [0.0], translator.translate_all

    def take_a_second(*args):
        translations = translate_all(*args)
        clock[0] += 1
        return translations

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            models = [Batches(translator, pool, Limits(), counts) for _ in range(2)]
            tasks = [asyncio.create_task(model.run()) for model in models]
            await asyncio.gather(*(model.translate(["A"]) for model in models))
            for task in tasks:
                task.cancel()

    monkeypatch.setattr(translator, "translate_all", take_a_second)
    monkeypatch.setattr(serving.time, "perf_counter", lambda: clock[0])
    asyncio.run(ask())
    assert counts["seconds_total"] == 2


def test_an_error_of_any_kind_is_an_answer(translator, monkeypatch):
    """Check that the next request is answered, too."""

    async def ask():
        with ThreadPoolExecutor(1) as pool:
            batches = Batches(translator, pool, Limits(), Counter())
            task = asyncio.create_task(batches.run())
            for _ in range(2):
                with pytest.raises(Refused, match="of a mechanism"):
                    await asyncio.wait_for(batches.translate(["A"]), 5)
            task.cancel()

    def fail(*args):
        raise ValueError("an error of a mechanism")

    monkeypatch.setattr(translator, "translate", fail)
    asyncio.run(ask())


HANGS_UP = {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("is_whole", "following", "status"),
    [(False, [], 408), (True, [HANGS_UP], 499), (False, [HANGS_UP], 499)],
)
def test_a_client_that_stops_sending_or_hangs_up_is_not_waited_for(
    is_whole, following, status, translator, monkeypatch
):
    monkeypatch.setattr(serving, "STALLED", 0.1)
    body = b'{"q": "A", "source": "de", "target": "en"}'
    part = {"type": "http.request", "body": body, "more_body": not is_whole}
    events, answers = iter([part, *following]), []

    async def receive():
        return next(events, None) or await asyncio.Future()

    async def send(message):
        answers.append(message)

    app = application([translator], Limits())  # nothing translates
    scope = {"type": "http", "method": "POST", "path": "/translate", "headers": []}
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 30))
    assert answers[0]["status"] == status


def test_what_cannot_be_served_is_one_line(url, capsys):
    words, port = COMMAND[4:], url.rpartition(":")[2]
    for arguments, message in (
        ([*words, "--port", port], f"--port {port}: Address already in use; choose another"),
        ([str(CHECKPOINT), *words], "both translate de-en; serve them on two ports"),
    ):
        assert serve.main(arguments) == 1
        assert message in capsys.readouterr().err.splitlines()[-1]
