"""Print BLEU and some translations beside their references, from what fairseq-generate wrote."""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from sacrebleu.metrics import BLEU


class Translation(NamedTuple):
    source: str
    reference: str
    output: str

    @property
    def is_exact(self):
        return self.output == self.reference


def read_translations(path):
    """Return the translations in the order of the test set, without subword marks.

    fairseq-generate writes, sorted by length, a line each of ``S-7<tab>source``,
    ``T-7<tab>reference`` and ``D-7<tab>score<tab>output`` for sentence 7.
    """
    fields = {"S": {}, "T": {}, "D": {}}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, _, text = line.rstrip("\n").partition("\t")
            kind, _, sentence = name.partition("-")
            if kind in fields and sentence.isdecimal():
                fields[kind][int(sentence)] = text.rpartition("\t")[2]
    return [
        Translation(fields["S"][sentence], fields["T"][sentence], output)
        for sentence, output in sorted(fields["D"].items())
    ]


def show(heading, translations):
    print(heading)
    for translation in translations:
        for label, text in zip(("source", "reference", "output"), translation, strict=True):
            print(f"   {label:9}  {text}")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the standard output of fairseq-generate")
    parser.add_argument("--examples", type=int, default=5, help="how many (default: %(default)s)")
    args = parser.parse_args()
    translations = read_translations(args.file)
    if not translations:
        sys.exit(f"{parser.prog}: error: {args.file} holds no translations")

    bleu = BLEU()
    score = bleu.corpus_score(
        [translation.output for translation in translations],
        [[translation.reference for translation in translations]],
    )
    wrong = [translation for translation in translations if not translation.is_exact]
    show("The first translations of the test set", translations[: args.examples])
    if wrong:
        show("Translations that differ from their references", wrong[: args.examples])
    print(f"BLEU {score.score:.2f} (sacreBLEU, {bleu.get_signature()})")
    print(f"{len(translations) - len(wrong)} of {len(translations)} translations are exact")


if __name__ == "__main__":
    main()
