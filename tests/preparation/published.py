"""Small classification data sets in their published archives."""

import json
import random
from functools import partial

from archive_files import write_archive, write_folder

WORDS = ["a", "the", "film", "camera", "it", "is", "good", "bad", "great", "awful", "works"]
WORDS += ["fails", ".", ",", "\xe9t\xe9"]


def publish(name, folder, size=30, sentence=None):
    """Write data set ``name`` into ``folder``, of one sentence or random text; return its path."""
    return PUBLISHERS[name](Text(name, sentence), folder, size)


class Text:
    def __init__(self, seed, fixed):
        self.generator, self.fixed = random.Random(seed), fixed

    def sentence(self):
        words = self.generator.choices(WORDS, k=self.generator.randint(2, 8))
        return self.fixed or " ".join(words)

    def lines(self, size, form):
        """Return ``size`` lines, each ``form(number)``."""
        return "".join(f"{form(number)}\n" for number in range(size))

    def tree(self, label):
        *words, last = self.sentence().split()
        tree = f"(2 {last})"
        for word in reversed(words):
            tree = f"({label} (2 {word}) {tree})"
        return tree


def _sst(text, folder, size):
    files = {
        f"trees/{split}.txt": text.lines(size, lambda number: text.tree(number % 5))
        for split in ("train", "dev", "test")
    }
    return write_archive(folder / "trainDevTestTrees_PTB.zip", files)


def _trec(text, folder, size):
    classes = ["DESC:manner", "ENTY:animal", "ABBR:exp", "HUM:ind", "LOC:city", "NUM:date"]
    questions = text.lines(size, lambda number: f"{classes[number % 6]} {text.sentence()}")
    files = dict.fromkeys(("train_5500.label", "TREC_10.label"), questions.encode("iso-8859-1"))
    return write_folder(folder, files)


def _two_files(names, text, folder, size):
    files = {f"data/{name}": text.lines(size, lambda _: text.sentence()) for name in names.split()}
    return write_archive(folder / "datasmall_NB_ACL12.zip", files)


def _sick(text, folder, size):
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    labels = ["NEUTRAL", "ENTAILMENT", "CONTRADICTION"]

    def row(number):
        pair = f"{number}\t{text.sentence()}\t{text.sentence()}"
        return f"{pair}\t{1 + number % 5 * 0.7:.1f}\t{labels[number % 3]}"

    for part in ("train", "trial", "test_annotated"):
        files = {f"SICK_{part}.txt": header + text.lines(size, row)}
        write_archive(folder / f"sick_{part}.zip", files)
    return folder


def _zhang(file, classes, text, folder, size):
    def row(number):
        return f'"{1 + number % classes}","{text.sentence()} ""so""","{text.sentence()}"'

    files = {f"{file}/{split}.csv": text.lines(size, row) for split in ("train", "test")}
    return write_archive(folder / f"{file}.tgz", files)


def _nli(name, files, text, folder, size):
    labels = ["neutral", "entailment", "contradiction", "-"]

    def pair(number):
        parses = {f"sentence{n}_binary_parse": f"( {text.sentence()} )" for n in (1, 2)}
        return json.dumps({"gold_label": labels[number % 4], **parses})

    content = {f"{name}/{name}_{file}.jsonl": text.lines(size, pair) for file in files.split()}
    return write_archive(folder / f"{name}.zip", content)


def _amazon(text, folder, size):
    def review(rating):
        body = f"{text.sentence().capitalize()}. {text.sentence().capitalize()}!"
        rated = f"<rating>\n{rating}\n</rating>\n<review_text>\n{body}\n</review_text>"
        return f"<review>\n{rated}\n</review>"

    files = {}
    for side, least in (("positive", 4), ("negative", 1)):
        reviews = text.lines(size, lambda number, least=least: review(f"{least + number % 2}.0"))
        files[f"sorted_data_acl/electronics/{side}.review"] = reviews
    return write_archive(folder / "domain_sentiment_data.tar.gz", files)


PUBLISHERS = {
    "sst2": _sst,
    "sst5": _sst,
    "trec": _trec,
    "cr": partial(_two_files, "customerr/custrev.pos customerr/custrev.neg"),
    "mpqa": partial(_two_files, "mpqa/mpqa.pos mpqa/mpqa.neg"),
    "subj": partial(_two_files, "subj/subj.subjective subj/subj.objective"),
    "sick": _sick,
    "ag_news": partial(_zhang, "ag_news_csv", 4),
    "yelp_polarity": partial(_zhang, "yelp_review_polarity_csv", 2),
    "yelp_full": partial(_zhang, "yelp_review_full_csv", 5),
    "yahoo_answers": partial(_zhang, "yahoo_answers_csv", 10),
    "snli": partial(_nli, "snli_1.0", "train dev test"),
    "multinli": partial(_nli, "multinli_1.0", "train dev_matched dev_mismatched"),
    "amazon_electronics": _amazon,
}
