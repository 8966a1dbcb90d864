"""The page as a browser shows it: pointed at, typed into, by keyboard, at the width of a phone."""

import base64
import contextlib
import json
import math
import re
import threading
import zlib

import pytest
from browser import Browser, find

from fairseq_posattn.inspection.page.server import LookServer, page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find() is None, reason="no Chromium or Chrome here; see CONTRIBUTING.md"),
]

# A picture of the page as it is shown, in plain lists.
SHOWN = """(() => {
  const texts = (selector) => [...document.querySelectorAll(selector)].map((el) => el.innerText);
  const row = (name) => [...document.querySelectorAll(`#row-${name} .word`)];
  return {
    rows: Object.fromEntries([...document.querySelectorAll(".words")].map((line) => {
      const words = [...line.children];
      return [line.id.slice(4), words.map((word) => word.querySelector(".text").textContent)];
    })),
    numbers: texts(".keys .number"),
    shades: [...document.querySelectorAll(".keys .word")].map(
      (word) => getComputedStyle(word).backgroundColor),
    chosen: texts(".chosen .text"),
    strongest: texts("#strongest dt"),
    plot: texts("#plot h2"),
    curve: document.querySelector("#plot polyline")?.getAttribute("points"),
    top: document.querySelector("#plot svg text")?.textContent,
    dots: document.querySelectorAll("#plot circle").length,
    note: document.querySelector("#note").textContent,
    outcome: document.querySelector("#outcome").innerText,
    heads: texts("#head label"),
    hash: location.hash,
  };
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(find(), tmp_path_factory.mktemp("browser"))
    yield browser
    assert browser.process.poll() is None
    browser.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Return ``visit(view, "a b", ..., hash="#word=2")``: what the page shows, and its data."""

    def visit(view, *texts, hash="", width=1200):
        sentences = [view(*text) if isinstance(text, tuple) else view(text) for text in texts]
        path = tmp_path / "page.html"
        path.write_text(page(view.description(), sentences), encoding="utf-8")
        browser.window(width)
        browser.open(f"file://{path}{hash}")
        assert browser.complaints() == []
        return browser.run(SHOWN), sentences

    return visit


def percents(weights):
    """Return the numbers under words."""
    rounded = [int(weight / 10 + 0.5) for weight in weights]
    return [str(number) if number else "" for number in rounded]


def test_a_word_under_the_pointer_shows_where_it_attends(browser, visit, translator):
    _, (sentence,) = visit(translator(), "a b c d", hash="#place=1&head=2&word=1")
    browser.point("#row-source .word:nth-child(3)")
    shown = browser.run(SHOWN)
    weights = sentence["attention"][0]["weights"][1][2]
    assert shown["chosen"] == ["c"]
    assert shown["numbers"] == percents(weights)
    words = sentence["rows"]["source"]
    assert shown["strongest"][0] == words[weights.index(max(weights))]
    assert "Dynamic mask" in shown["plot"][0] and shown["dots"] == len(words)
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    shown = browser.run(SHOWN)  # back to the chosen word
    assert shown["chosen"] == ["a"]
    assert shown["numbers"] == percents(sentence["attention"][0]["weights"][1][0])


def test_a_click_chooses_part_layer_head_and_sentence(browser, visit, translator):
    _, sentences = visit(translator(), "a b", ("c d e", "A B"))
    browser.run("sentence.__proto__")  # the page is there
    browser.run(
        "(() => { const list = document.querySelector('#sentence'); list.value = 1;"
        " list.dispatchEvent(new Event('change')); })()"
    )
    for name, value in (("part", "cross attention"), ("layer", 2), ("head", 0)):
        browser.click(f'#{name} input[value="{value}"]')
    browser.click("#row-target .word:nth-child(2)")
    shown = browser.run(SHOWN)
    assert shown["rows"] == {"target": ["A", "B", "</s>"], "source": ["c", "d", "e", "</s>"]}
    assert shown["hash"] == "#sentence=2&place=10&head=1&word=2"
    assert shown["numbers"] == percents(sentences[1]["attention"][9]["weights"][0][1])
    assert browser.complaints() == []
    browser.run("location.reload()")
    browser._read(lambda event: event.get("method") == "Page.loadEventFired")
    assert browser.run(SHOWN)["numbers"] == shown["numbers"]


def test_the_keyboard_does_all_that_the_pointer_does(browser, visit, translator):
    _, (sentence,) = visit(translator(), ("a b c", "A B C"), hash="#head=1")
    for _ in range(12):
        browser.press("Tab")
        if browser.run("document.activeElement.classList.contains('word')"):
            break
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.run(SHOWN)["chosen"] == ["c"]
    assert browser.run(SHOWN)["numbers"] == percents(sentence["attention"][0]["weights"][0][2])
    browser.press("ArrowLeft")
    assert browser.run(SHOWN)["chosen"] == ["b"]
    browser.press("End")
    assert browser.run(SHOWN)["chosen"] == ["</s>"]
    browser.run("document.querySelector('#part input:checked').focus()")
    browser.press("ArrowRight")  # as radio buttons everywhere
    assert set(browser.run(SHOWN)["rows"]) == {"target", "written"}
    assert browser.run("document.activeElement.value") == "decoder"


def test_the_mean_of_all_heads(visit, translator):
    shown, (sentence,) = visit(translator(), "a b c", hash="#place=2&word=2&head=mean")
    heads = sentence["attention"][1]["weights"]
    mean = [sum(head[1][key] for head in heads) / len(heads) for key in range(4)]
    assert shown["numbers"] == percents(mean)
    assert shown["heads"] == ["mean", "1", "2"]


def test_the_base_of_the_log_probability_is_named(visit, translator):
    shown, (sentence,) = visit(translator(), "a b c")  # base 2 and normalized, as fairseq's
    assert f"mean log2-probability {sentence['outcome']['score']}" in shown["outcome"]


def test_an_output_that_may_be_cut_is_named(visit, translator):
    view = translator()
    shown, (sentence,) = visit(view, "a b c")
    assert sentence["rows"]["target"] == ["A", "</s>"]
    assert "maybe cut" not in shown["outcome"]
    view.translator.generation.max_len_b = view.translator.generator.max_len_b = 1
    assert "maybe cut" in visit(view, "a b c")[0]["outcome"]


def test_the_curve_is_that_of_the_word(visit, translator):
    view = translator()
    shown, (sentence,) = visit(view, "a b c", hash="#place=1&head=2&word=3")
    line = view.description()["layers"][0]["plot"]["lines"][1]
    term = sentence["attention"][0]["terms"][2]
    values = [1 / (1 + math.exp(-number - term)) for number in line]
    points = [tuple(map(float, point.split(","))) for point in shown["curve"].split()]
    assert len(points) == len(values)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    (lowest, low), (highest, high) = (
        choose(zip(values, points, strict=True)) for choose in (min, max)
    )
    slope = (low[1] - high[1]) / (highest - lowest)  # upwards, y is smaller
    drawn = [lowest + (low[1] - y) / slope for _, y in points]
    assert drawn == pytest.approx(values, abs=0.01)
    assert float(shown["top"]) == pytest.approx(highest, rel=0.05)
    assert low[1] + lowest * slope == pytest.approx(106, abs=0.3)  # where the axis is, at 0


def test_a_classifier(browser, visit, classifier):
    view = classifier(encoder="mpsan", pooling="source2token")
    shown, (sentence,) = visit(view, "a b d e", hash="#place=1&head=4&word=2")
    assert sentence["outcome"]["label"] in shown["outcome"]
    assert shown["heads"][-1].endswith("mask future+scaled_distance")
    assert shown["numbers"][:2] == ["", ""] and shown["dots"] == 4
    browser.click('#part input[value="pooling"]')
    shown = browser.run(SHOWN)
    assert shown["numbers"] == percents(sentence["attention"][1]["weights"][0])
    assert "each of 8 features: shown is the mean" in shown["note"]
    assert browser.complaints() == []


def test_right_to_left_text_is_laid_out_from_the_right(browser, visit, translator):
    japanese, arabic = "猫 が 外 を 見る", "القطة تنظر من النافذة ."
    view = translator(japanese, arabic, source_lang="ja", target_lang="ar")
    number = len(view.layers)
    shown, _ = visit(view, (japanese, arabic), hash=f"#place={number}&word=1")
    assert shown["rows"]["source"] == [*japanese.split(), "</s>"]
    positions = browser.run(
        "['target', 'source'].map((name) => [...document.querySelectorAll(`#row-${name} .word`)]"
        ".map((word) => word.getBoundingClientRect().x))"
    )
    assert positions[0] == sorted(positions[0], reverse=True)
    assert positions[1] == sorted(positions[1])
    languages = "['target', 'source'].map((name) => document.getElementById(`row-${name}`).lang)"
    assert browser.run(languages) == ["ar", "ja"]
    languages = "[...document.querySelectorAll('[lang]')].map((part) => part.lang)"
    assert browser.run(languages) == ["en", "ja", "ar", "ar", "ja", "ar", "ja"]
    browser.run("document.querySelector('#row-target .word').focus()")
    browser.press("ArrowLeft")
    assert browser.run(SHOWN)["chosen"] == ["تنظر"]
    goto = "(number) => (set({ layer: number }), getComputedStyle($('row-written')).direction)"
    decoder = [layer.part for layer in view.layers].index("decoder")
    assert browser.run(f"({goto})({decoder})") == "rtl"  # though "(start)" is left to right


def test_a_printed_page_has_the_colors(browser, visit, translator):
    visit(translator(), "a", hash="#place=1&head=1")
    pdf = base64.b64decode(browser.ask("Page.printToPDF")["data"])  # without backgrounds
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    assert any(b".9608 .6196 .1569 rg" in content for content in map(inflate, streams))


def inflate(stream):
    with contextlib.suppress(zlib.error):
        return zlib.decompressobj().decompress(stream)
    return b""


def test_text_that_looks_like_html_is_shown_and_not_run(browser, visit, classifier, translator):
    text = "<img src=x onerror=document.title=1> </script><script>document.title=2</script> &lt;"
    word = "<img/src=x/onerror=document.title=1>"
    for view, texts in (
        (classifier(encoder="mpsan"), text),
        (translator(word, word), (word, word)),
    ):
        shown, _ = visit(view, texts)
        assert text in shown["outcome"] or shown["rows"]["source"] == [word, "</s>"]
        assert browser.run("document.title") == "Attention weights"
        assert browser.run("document.images.length") == 0


def test_pictures_are_as_bright_in_the_dark(browser, visit, translator):
    pixel = "[...document.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1).data]"
    visit(translator(), "a", hash="#place=1&head=1")
    bright = browser.run(pixel)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.ask("Emulation.setEmulatedMedia", features=dark)
    assert browser.run("matchMedia('(prefers-color-scheme: dark)').matches")
    browser.run("show()")
    assert browser.run(pixel) == bright
    browser.ask("Emulation.setEmulatedMedia", features=[])


def test_the_page_makes_no_requests(browser, visit, translator):
    visit(translator(), "a b")
    assert [url.partition(":")[0] for url in browser.requests()] == ["file"]
    answer = browser.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
    assert answer == "refused"
    assert any("Content Security Policy" in json.dumps(event) for event in browser.complaints())


@pytest.mark.parametrize("width", [360, 800, 1400])
@pytest.mark.parametrize("number", [1, 5, 10])
def test_nothing_is_cut_off_at_any_width(browser, visit, translator, width, number):
    words = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen a b c d e " * 3
    visit(translator(words, words), (words, words), hash=f"#place={number}", width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_typed_text_is_answered(browser, classifier):
    view = classifier(encoder="mpsan", pooling="source2token")
    with LookServer(view, [], port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            browser.window(1200)
            browser.open(f"http://127.0.0.1:{server.server_port}/")
            about = browser.run("document.querySelector('#model').innerText")
            assert about == "folder/checkpoint.pt: mpsan, source2token pooling"
            shown = typed(browser, "a b <b>d</b>")
            words = ["a", "b", "<unk>", "b", "<unk>", "d", "<unk>", "<unk>", "b", "<unk>"]
            assert shown["rows"] == {"words": words}
            assert "a b <b>d</b>" in shown["outcome"]
            assert browser.complaints() == []
            shown = typed(browser, "<img src=x onerror=document.title=1>")
            assert "<img src=x" in shown["outcome"]
            assert browser.run("document.images.length") == 0
            assert browser.run("document.title") == "Attention weights"
            assert "cut to the 16 tokens" in typed(browser, "e " * 40)["outcome"]
            shown = typed(browser, "d e")
            assert shown["rows"] == {"words": ["d", "e"]}
            assert browser.run("document.querySelectorAll('#sentence option').length") == 4
        finally:
            server.shutdown()
            thread.join()
    typed(browser, "a")
    assert "has been stopped" in browser.run("document.querySelector('#answer').innerText")


def typed(browser, text):
    """Type a text into the field; return what the page shows after the answer."""
    browser.run("document.querySelector('#typed').value = ''")
    browser.click("#typed")
    browser.type(text)
    browser.click("#ask button")
    waiting = "document.querySelector('#answer').innerText.startsWith('Computing')"
    done = f"(done) => {{ const look = () => {waiting} ? setTimeout(look, 20) : done(); look(); }}"
    browser.run(f"new Promise({done})")
    return browser.run(SHOWN)
