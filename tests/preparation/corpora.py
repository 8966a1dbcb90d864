"""Small translation corpora in their published layouts, and the text of a corpus."""

import itertools
from argparse import Namespace
from dataclasses import replace

from fairseq_posattn.preparation.download import obtain_any

GERMAN = [
    ["Ein Mann", "Eine Frau", "Das Kind", "Er"],
    ["sieht", "malt", "kauft", "trägt"],
    ["einen Ball", "das Haus", "zwei Hüte", "R&D"],
    [".", ", dann noch mehr.", ' "heute".', "!"],
]
ENGLISH = [
    ["A man", "A woman", "The child", "He"],
    ["sees", "paints", "buys", "carries"],
    ["a ball", "the house", "two hats", "R&D"],
    [".", ", then more.", ' "today".', "!"],
]


def sentences(count, start=0):
    """Return German and English sentences; the 257th is the first again."""
    both = []
    for words in (GERMAN, ENGLISH):
        texts = [f"{' '.join(parts)}{end}" for *parts, end in itertools.product(*words)]
        both.append([texts[number % len(texts)] for number in range(start, start + count)])
    return both


def written_text(corpus, source, folder, **options):
    """Return the lines of each file of a corpus's text, which is written to ``folder/text``."""
    options = Namespace(source=source, dest=folder, **options)
    corpus = replace(corpus, **corpus.changes(options))
    text = folder / "text"
    text.mkdir(exist_ok=True)
    archive = obtain_any(corpus.alternatives, source, folder / "download")
    corpus.write(corpus.read(archive, options), text, corpus, options)
    return {path.name: path.read_text("utf-8").splitlines() for path in text.iterdir()}


def lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def segments(texts):
    """Return an evaluation set of one document, as XML or SGML."""
    body = "".join(f'<seg id="{n}"> {text} </seg>\n' for n, text in enumerate(texts, start=1))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="set">\n'
        f'<doc docid="1">\n<url>http://example.org</url>\n<title>No sentence</title>\n{body}'
        "</doc>\n</srcset>\n</mteval>\n"
    ).encode()


def talks(texts, language):
    """Return a training file of IWSLT, talks with metadata."""
    rows = []
    for number, text in enumerate(texts):
        if number % 50 == 0:
            rows += [
                f"<url>http://example.org/{number}</url>",
                "<keywords>talks, technology</keywords>",
                "<speaker>Al Gore</speaker>",
                f"<talkid>{number}</talkid>",
                f"<title>Al Gore: {language} {number}</title>",
                f"<description>TED Talk {language}.</description>",
            ]
        rows.append(f"{text} ")
    return lines(rows)


SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def iwslt14(pairs=400):
    """Return ``{name: content}`` of de-en.tgz; the n-th evaluation set starts at sentence n."""
    german, english = sentences(pairs)
    files = {
        "de-en/train.tags.de-en.de": talks(german, "deutsch"),
        "de-en/train.tags.de-en.en": talks(english, "english"),
        "de-en/IWSLT14.TED.tst2009.de-en.de.xml": segments(["not this one"]),
    }
    for number, name in enumerate(SETS):
        for language, texts in zip(("de", "en"), sentences(2, number), strict=True):
            files[f"de-en/IWSLT14.{name}.de-en.{language}.xml"] = segments(texts)
    return files


def wmt14(news_commentary="v9"):
    """Return ``{archive: {name: content}}`` of the five archives."""
    archives = {
        "training-parallel-europarl-v7.tgz": corpus("training/europarl-v7.de-en", 100),
        "training-parallel-commoncrawl.tgz": corpus("commoncrawl.de-en", 100, 50),
        f"training-parallel-nc-{news_commentary}.tgz": corpus(
            f"training/news-commentary-{news_commentary}.de-en", 100, 100
        ),
        "dev.tgz": corpus("dev/newstest2013", 7, 3),
    }
    german, english = sentences(5, 9)
    archives["test-full.tgz"] = {
        "test-full/newstest2014-deen-ref.de.sgm": segments(german),
        "test-full/newstest2014-deen-src.en.sgm": segments(english),
        "test-full/newstest2014-fren-src.fr.sgm": segments(["pas ceci"]),
    }
    return archives


def corpus(name, count, start=0):
    german, english = sentences(count, start)
    # The published archives have other languages, too.
    return {f"{name}.de": lines(german), f"{name}.en": lines(english), f"{name}.fr": b"non\n"}


def multi30k():
    """Return ``{name: text}`` of the six files, which are published compressed."""
    return {
        f"{name}.{language}": lines(texts)
        for name, count in (("train", 60), ("val", 5), ("test_2016_flickr", 4))
        for language, texts in zip(("de", "en"), sentences(count, 7), strict=True)
    }
