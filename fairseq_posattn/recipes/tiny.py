"""Generate small data for trying commands, in the layout that ``posattn prepare`` writes.

``text`` writes spelled-out numbers in German and English, ``numbers`` binarizes 200 such pairs in
subwords, under any pair of languages. ``datasets`` makes FOLDER/trec and so on of words from which
the answer can be learned; cross validation has two folds.
"""

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from fairseq_posattn.common.files import write_json, write_text
from fairseq_posattn.preparation.corpora import CLASSIFICATION, RECOMMENDATION, TAGGING
from fairseq_posattn.preparation.corpora.entailment import MULTINLI_FILES, SNLI_FILES
from fairseq_posattn.preparation.corpus import SPLITS, ClassificationCorpus, TaggingCorpus
from fairseq_posattn.text.vocabulary import VECTORS

# Numbers below 20, tens from 20, both together, hundred, thousand, and what joins them. A plus
# separates subwords.
GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf drei+zehn vier+zehn"
    " fünf+zehn sech+zehn sieb+zehn acht+zehn neun+zehn",
    "zwan+zig drei+ßig vier+zig fünf+zig sech+zig sieb+zig acht+zig neun+zig",
    *("{1}+und+{0}", "hundert", "tausend", "+"),
)
ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thir+teen four+teen"
    " fif+teen six+teen seven+teen eigh+teen nine+teen",
    "twen+ty thir+ty for+ty fif+ty six+ty seven+ty eigh+ty nine+ty",
    *("{0}-+{1}", "hundred", "thousand", " "),
)
DOCUMENTS = {"amazon_electronics"}  # texts of several sentences
SIZES = dict(zip(SPLITS, (40, 20, 20), strict=True))
FILLERS = [consonant + vowel for consonant in "bdgklm" for vowel in "aeiou"]
TRANSFER = {"snli_gpt": SNLI_FILES, "multinli_gpt": MULTINLI_FILES}
KNOWN = (*CLASSIFICATION, *TAGGING, *RECOMMENDATION, *TRANSFER)
FEATURES = 12  # of the word vectors
Example = dict[str, str | float]
TOPICS, NEWS = 4, 24
DAYS = {"train": (9, 10), "dev": (16,)}  # of November; the last day of train is for validation
IMPRESSIONS = 20  # a day


def german(number: int) -> str:
    """Spell a number of 0 to 999,999 in German: one word in subwords."""
    return _spell(number, *GERMAN).replace("+", "@@ ") + ("s" if number % 100 == 1 else "")


def english(number: int) -> str:
    """Spell a number of 0 to 999,999 in English: words, some of them in subwords."""
    return _spell(number, *ENGLISH).replace("+", "@@ ")


def _spell(number: int, *language: str) -> str:
    small, tens, both, hundred, thousand, joint = language
    if number < 20:
        return small.split()[number]
    if number < 100:
        ten, unit = tens.split()[number // 10 - 2], number % 10
        return both.format(ten, small.split()[unit]) if unit else ten
    size, power = (1000, thousand) if number >= 1000 else (100, hundred)
    front, rest = divmod(number, size)
    parts = [_spell(front, *language), power, *([_spell(rest, *language)] if rest else [])]
    return joint.join(parts)


def draw_splits(train: int, valid: int, test: int, seed: int) -> dict[str, list[int]]:
    """Draw disjoint splits of numbers, by split, in random order.

    The training split contains 0 to 99, and so all subwords. The others are drawn on a logarithmic
    scale, because most of a uniform draw would be long.
    """
    if train < 100 or min(valid, test) < 1:
        few = f"{train} pairs to train, {valid} to validate and {test} to test are too few"
        raise ValueError(f"{few}: at least 100, 1 and 1 are needed")
    generator = random.Random(seed)
    unique: dict[int, None] = {}  # as an ordered set
    while len(unique) < train - 100 + valid + test:
        unique[int(100 * 10_000 ** generator.random())] = None
    drawn = list(unique)
    training = [*drawn[valid + test :], *range(100)]
    generator.shuffle(training)
    return {"train": training, "valid": drawn[:valid], "test": drawn[valid : valid + test]}


def write_corpus(
    folder: Path, splits: Mapping[str, Sequence[int]], languages: Sequence[str], joint: str
) -> None:
    """Write ``train.de``, ``train.en``, ..., a number a line, ``joint`` between subwords."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, numbers in splits.items():
        for language, spell in zip(languages, (german, english), strict=True):
            text = "".join(f"{spell(number)}\n" for number in numbers).replace("@@ ", joint)
            write_text(folder / f"{split}.{language}", text)


def make_numbers(folder: Path, source: str, target: str) -> None:
    """Write binarized pairs of numbers, the alphabetically first language being the German one."""
    with _whole(folder) as part:
        pair = sorted((source, target))
        write_corpus(part / "text", draw_splits(200, 10, 10, 1), pair, "@@ ")
        languages = ["--source-lang", source, "--target-lang", target, "--joined-dictionary"]
        prefixes = [f"--{split}pref={part / 'text' / split}" for split in SPLITS]
        _preprocess([*languages, *prefixes, "--destdir", part])


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """Yield a folder that takes the name of ``folder`` at the end, unless there is an error."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    yield part
    part.rename(folder)


def make_dataset(name: str, folder: Path, generator: random.Random) -> None:
    """Write a data set; after an error there is nothing at ``folder``."""
    with _whole(folder) as part:
        if name in TRANSFER:
            examples = _examples(CLASSIFICATION[name.removesuffix("_gpt")], generator)
            make_transfer(name, part, examples)
            return
        if name in TAGGING:
            words = _make_roles(TAGGING[name], part, generator)
        elif name in RECOMMENDATION:
            words = _make_news(name, part, generator)
        else:
            words = _make_labeled(CLASSIFICATION[name], part, generator)
        lines = [f"{len(words)} {FEATURES}"]
        for word in words:
            vector = [f"{generator.gauss(0, 0.4):.4f}" for _ in range(FEATURES)]
            lines.append(" ".join([word, *vector]))
        (part / VECTORS).write_text("\n".join(lines) + "\n")


def _examples(corpus: ClassificationCorpus, generator: random.Random) -> dict[str, list[Example]]:
    return {
        split: [_example(corpus, number, generator) for number in range(size)]
        for split, size in SIZES.items()
    }


def _make_labeled(
    corpus: ClassificationCorpus, folder: Path, generator: random.Random
) -> list[str]:
    """Write all folds; return the words."""
    for fold in corpus.parts[:2]:
        text = folder / fold / "text"
        text.mkdir(parents=True)
        for split, examples in _examples(corpus, generator).items():
            for kind in corpus.kinds:
                lines = [f"{example[kind]}\n" for example in examples]
                (text / f"{split}.{kind}").write_text("".join(lines))
        for kind in (*corpus.inputs, "label"):
            _binarize(text, kind)
        if corpus.scored:
            for split in SIZES:
                (text / f"{split}.score").rename(folder / fold / "label" / f"{split}.label")
    assert corpus.labels is not None
    return [f"cue{number}" for number in range(len(corpus.labels))] + FILLERS + ["<sep>"]


def _example(corpus: ClassificationCorpus, number: int, generator: random.Random) -> Example:
    """Return texts, label and score of an example."""
    assert corpus.labels is not None
    classes = len(corpus.labels)
    label = number % classes
    sentences = [
        " ".join([*generator.choices(FILLERS, k=generator.randint(1, 6)), f"cue{label}"])
        for _ in range(3 if corpus.name in DOCUMENTS else 1)
    ]
    words = " <sep> ".join(sentences).split()
    shared = words[: round(len(words) * label / (classes - 1))]
    return {
        "input0": " ".join(words),
        "input1": " ".join(shared + generator.choices(FILLERS, k=2)),
        "label": f"class{label}",
        "score": 1 + 4 * label / (classes - 1),
    }


def _make_roles(corpus: TaggingCorpus, folder: Path, generator: random.Random) -> list[str]:
    """Write sentences with a predicate; return the words."""
    text = folder / "text"
    text.mkdir(parents=True)
    sizes = {split: SIZES.get(split, 20) for split in corpus.predicates}
    for split, size in sizes.items():
        columns: dict[str, list[str]] = {"words": [], "predicate": [], "tags": []}
        for _ in range(size):
            before, after = generator.randint(1, 3), generator.randint(1, 3)
            words = generator.choices(FILLERS, k=before + 1 + after)
            words[before] = "verb"
            flags = [*"0" * before, "1", *"0" * after]
            tags = ["B-A0", *["I-A0"] * (before - 1), "B-V", "B-A1", *["I-A1"] * (after - 1)]
            for name, cells in zip(columns, (words, flags, tags), strict=True):
                columns[name].append(" ".join(cells) + "\n")
        for name, lines in columns.items():
            (text / f"{split}.{name}").write_text("".join(lines))
    for name in columns:
        _binarize(text, name, sizes)
    return [*FILLERS, "verb"]


def _binarize(text: Path, kind: str, splits: Iterable[str] = SIZES) -> None:
    """Binarize a column of ``text`` into the folder of its name beside it."""
    flags = ["--only-source", "--destdir", text.parent / kind]
    for option in SPLITS:  # fairseq calls the second test set test1
        files = [f"{text / split}.{kind}" for split in splits if split.startswith(option)]
        flags += [f"--{option}pref={','.join(files)}"]
    if kind == "input1":
        flags += ["--srcdict", text.parent / "input0" / "dict.txt"]
    _preprocess(flags)


def _preprocess(flags: Iterable[object]) -> None:
    from fairseq_posattn.training.registered import options  # first: its import of fairseq is quick

    from fairseq_cli import preprocess  # isort: skip

    preprocess.main(options.get_preprocessing_parser().parse_args(list(map(str, flags))))


def _prepare(kind: str, words: Sequence[str]) -> None:
    from fairseq_posattn.preparation.commands import prepare as command  # imports everything

    if command.prepare(kind, [*words, "--jobs", "1"]):
        raise RuntimeError(f"the generated {words[0]} could not be prepared")


def _make_news(name: str, folder: Path, generator: random.Random) -> list[str]:
    """Write generated logs and prepare them; return the words of the titles."""
    topics = {f"N{number}": f"cue{number % TOPICS}" for number in range(NEWS)}
    news = ""
    for article, topic in topics.items():
        title = " ".join([*generator.choices(FILLERS, k=3), topic])
        news += f"{article}\tnews\tworld\t{title}\t\thttps://example.org/{article}\t[]\t[]\n"
    with tempfile.TemporaryDirectory() as logs:
        for part, days in DAYS.items():
            each = enumerate(product(days, range(IMPRESSIONS)), start=1)
            lines = [_impression(number, day, topics, generator) for number, (day, _) in each]
            source = Path(logs, f"MINDsmall_{part}")
            source.mkdir()
            (source / "news.tsv").write_text(news)
            (source / "behaviors.tsv").write_text("".join(lines))
        _prepare("recommendation", [name, "--source", logs, "--dest", str(folder)])
    return [*sorted({*topics.values()}), *FILLERS]


def _impression(number: int, day: int, topics: dict[str, str], generator: random.Random) -> str:
    liked = generator.choice([*topics.values()])
    matching = [name for name, topic in topics.items() if topic == liked]
    others = [name for name in topics if name not in matching]
    clicked, *history = generator.sample(matching, generator.randint(1, 4))  # may be empty
    shown = [f"{clicked}-1", *(f"{name}-0" for name in generator.sample(others, 5))]
    generator.shuffle(shown)
    columns = [number, f"U{number}", f"11/{day}/2019 6:42:51 PM", " ".join(history)]
    return "\t".join(map(str, [*columns, " ".join(shown)])) + "\n"


def write_language_model(folder: Path, text: str) -> None:
    """Write a random ``openai-gpt`` of Hugging Face, with subwords of one or two characters."""
    import torch  # here, because the recipe's process needs none of it
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    characters = sorted(set("".join(text.split())))
    pairs = sorted(word for word in set(text.split()) if len(word) == 2)
    subwords = ["<unk>", *characters, *(f"{subword}</w>" for subword in (*characters, *pairs))]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        count = len(subwords)
        sizes = OpenAIGPTConfig(vocab_size=count, n_positions=64, n_embd=12, n_layer=2, n_head=2)
        OpenAIGPTLMHeadModel(sizes).save_pretrained(folder)
    write_json(folder / "vocab.json", {subword: row for row, subword in enumerate(subwords)})
    merges = "".join(f"{pair[0]} {pair[1]}</w>\n" for pair in pairs)
    write_text(folder / "merges.txt", f"#version: 0.2\n{merges}")


def make_transfer(name: str, folder: Path, examples: Mapping[str, Sequence[Example]]) -> None:
    """Write a language model beside ``folder``, and prepare pairs of sentences with it."""
    model, corpus = folder.with_name("openai-gpt"), CLASSIFICATION[name.removesuffix("_gpt")]
    labels = corpus.labels or ()
    texts = [f"{row['input0']} {row['input1']}" for split in examples.values() for row in split]
    write_language_model(model, " ".join(texts))
    with tempfile.TemporaryDirectory() as source:
        for split, file in TRANSFER[name].items():
            lines = ""
            for number, example in enumerate(examples[split]):
                parses = {f"sentence{n + 1}_binary_parse": example[f"input{n}"] for n in (0, 1)}
                lines += json.dumps({"gold_label": labels[number % 3], **parses}) + "\n"
            write_text(Path(source, file), lines)
        options = ["--source", source, "--dest", str(folder), "--language-model", str(model)]
        _prepare("classification", [corpus.name, *options])


def main(arguments: Sequence[str] | None = None) -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    commands = parser.add_subparsers(dest="command", required=True)
    text, numbers, datasets = map(commands.add_parser, ("text", "numbers", "datasets"))
    for command in (text, numbers, datasets):
        command.add_argument("folder", type=Path, metavar="FOLDER")
    for option, default in (("train", 30_000), ("valid", 500), ("test", 500), ("seed", 1)):
        text.add_argument(f"--{option}", type=int, default=default, metavar="N")
    numbers.add_argument("languages", nargs=2)
    datasets.add_argument("names", nargs="+", metavar="DATASET", choices=KNOWN)
    args = parser.parse_args(arguments)
    if args.command == "text":
        try:
            splits = draw_splits(args.train, args.valid, args.test, args.seed)
            write_corpus(args.folder, splits, ("de", "en"), joint="")
        except (OSError, ValueError) as error:
            sys.exit(f"{parser.prog}: error: {error}")
        return
    logging.disable()  # fairseq logs every file
    if args.command == "numbers":
        make_numbers(args.folder, *args.languages)
    generator = random.Random(1)
    for name in getattr(args, "names", ()):
        make_dataset(name, args.folder / name, generator)


if __name__ == "__main__":
    main()
