"""Small translation corpora in their published layouts."""

import itertools

GERMAN = {
    "subject": ["Ein Mann", "Eine Frau", "Das Kind", "Er"],
    "verb": ["sieht", "malt", "kauft", "trägt"],
    "object": ["einen Ball", "das Haus", "zwei Hüte", "R&D"],
    "end": [".", ", dann noch mehr.", ' "heute".', "!"],
}
ENGLISH = {
    "subject": ["A man", "A woman", "The child", "He"],
    "verb": ["sees", "paints", "buys", "carries"],
    "object": ["a ball", "the house", "two hats", "R&D"],
    "end": [".", ", then more.", ' "today".', "!"],
}


def sentences(count, start=0):
    """Return German and English sentences; the 257th is the first again."""
    german, english = (
        [
            f"{subject} {verb} {thing}{end}"
            for subject, verb, thing, end in itertools.product(*words.values())
        ]
        for words in (GERMAN, ENGLISH)
    )
    chosen = [number % len(german) for number in range(start, start + count)]
    return [german[number] for number in chosen], [english[number] for number in chosen]


def lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


def segments(texts, set_id="set"):
    """Return an evaluation set of one document, as XML or SGML."""
    body = "".join(f'<seg id="{n}"> {text} </seg>\n' for n, text in enumerate(texts, start=1))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="{set_id}">\n'
        f'<doc docid="1">\n<url>http://example.org</url>\n<title>No sentence</title>\n{body}'
        "</doc>\n</srcset>\n</mteval>\n"
    ).encode()


def talks(texts, language, every=50):
    """Return a training file of IWSLT, talks with metadata."""
    rows = []
    for number, text in enumerate(texts):
        if number % every == 0:
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


def iwslt14(pairs=400, per_set=2):
    """Return ``{name: content}`` of de-en.tgz; the n-th evaluation set starts at sentence n."""
    german, english = sentences(pairs)
    files = {
        "de-en/train.tags.de-en.de": talks(german, "deutsch"),
        "de-en/train.tags.de-en.en": talks(english, "english"),
        "de-en/IWSLT14.TED.tst2009.de-en.de.xml": segments(["not this one"]),
    }
    for number, name in enumerate(SETS):
        for language, texts in zip(("de", "en"), sentences(per_set, number), strict=True):
            files[f"de-en/IWSLT14.{name}.de-en.{language}.xml"] = segments(texts)
    return files


def wmt14(news_commentary="v9", pairs=100):
    """Return ``{archive: {name: content}}`` of the five archives."""
    archives = {
        "training-parallel-europarl-v7.tgz": corpus("training/europarl-v7.de-en", pairs),
        "training-parallel-commoncrawl.tgz": corpus("commoncrawl.de-en", pairs, 50),
        f"training-parallel-nc-{news_commentary}.tgz": corpus(
            f"training/news-commentary-{news_commentary}.de-en", pairs, 100
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


def multi30k(train=60):
    """Return ``{name: text}`` of the six files, which are published compressed."""
    files = {}
    for name, count in (("train", train), ("val", 5), ("test_2016_flickr", 4)):
        for language, texts in zip(("de", "en"), sentences(count, 7), strict=True):
            files[f"{name}.{language}"] = lines(texts)
    return files
