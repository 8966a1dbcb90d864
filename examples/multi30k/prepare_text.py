#!/usr/bin/env python3
"""Multi30k's German and English captions as tokenised, lower-cased text, one sentence a line.

SOURCE holds one of

    {train,valid,test}.{de,en}                     tokenised and lower-cased: taken as they are
    {train,val,test_2016_flickr}.{de,en}.gz        as published: normalised, tokenised, lower-cased

DESTINATION gets {train,valid,test}.{de,en}; it must not exist yet, and it appears only when all of
it is written.
"""

import argparse
import gzip
import shutil
import sys
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from tqdm import tqdm

LANGUAGES = ("de", "en")
SPLITS = ("train", "valid", "test")
PUBLISHED_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
PUBLISHED_LINES = {"train": 29000, "valid": 1014, "test": 1000}


class SourceError(Exception):
    """The source is not what it should be; the message says where and why."""


def parse_args():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument("destination", type=Path, metavar="DESTINATION")
    return parser.parse_args()


def find_files(source):
    """Which files hold which side of which split: ``{(split, language): path}``.

    Raises:
        SourceError: neither form is there whole.
    """
    if not source.is_dir():
        raise SourceError(f"{source} is not a folder")
    sides = [(split, language) for split in SPLITS for language in LANGUAGES]
    tokenised = {side: source / ".".join(side) for side in sides}
    raw = {
        (split, language): source / f"{PUBLISHED_NAMES[split]}.{language}.gz"
        for split, language in sides
    }
    for form in (tokenised, raw):
        missing = [path.name for path in form.values() if not path.is_file()]
        if not missing:
            return form
        if len(missing) < len(sides):
            raise SourceError(f"{source} lacks {', '.join(missing)}")
    names = "{train,valid,test}.{de,en} nor {train,val,test_2016_flickr}.{de,en}.gz"
    raise SourceError(f"{source} holds neither {names}")


def read_lines(path):
    """The lines of a text file, compressed or not.

    Raises:
        SourceError: it is damaged or not UTF-8.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8")
    except (gzip.BadGzipFile, EOFError) as error:
        raise SourceError(f"{path} is damaged: {error}") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8: byte {error.start} is wrong") from None
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def check_line_counts(files, lines):
    """Both sides of a split must go together; other counts than the published ones are mentioned.

    Raises:
        SourceError: a split is empty, or has more lines in one language than in the other.
    """
    for split in SPLITS:
        counts = {language: len(lines[split, language]) for language in LANGUAGES}
        if len(set(counts.values())) > 1:
            numbers = " but ".join(f"{files[split, lang]} {counts[lang]:,}" for lang in LANGUAGES)
            raise SourceError(f"line counts differ: {numbers}")
        count = counts["en"]
        if not count:
            raise SourceError(f"{files[split, 'en']} is empty")
        note = ""
        if count != PUBLISHED_LINES[split]:
            note = f" (as published: {PUBLISHED_LINES[split]:,})"
        print(f"{split}: {count:,} pairs of sentences{note}", file=sys.stderr)


def tokenise(lines, language, title):
    """Lower-case, normalise punctuation, split off punctuation and escape it, as Moses does."""
    normaliser, tokeniser = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokeniser.tokenize(normaliser.normalize(line.strip().lower()), return_str=True)
        for line in tqdm(lines, desc=f"tokenising {title}", mininterval=1, leave=False)
    ]


def main():
    args = parse_args()
    try:
        files = find_files(args.source)
        lines = {side: read_lines(path) for side, path in files.items()}
        check_line_counts(files, lines)
    except (SourceError, OSError) as error:
        sys.exit(f"prepare_text: error: {error}")
    part = args.destination.with_name(args.destination.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for (split, language), path in files.items():
        text = lines[split, language]
        if path.suffix == ".gz":
            text = tokenise(text, language, path.name)
        with open(part / f"{split}.{language}", "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in text)
    part.rename(args.destination)


if __name__ == "__main__":
    main()
