"""Helpers for tests of the small trained translation model in tests/fixtures."""

from pathlib import Path

from fairseq_posattn.inference import translation
from fairseq_posattn.inference.commands import translate

FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"
CHECKPOINT = FIXTURE / "checkpoint.pt"
EXPECTED = (FIXTURE / "translations.txt").read_text().splitlines()


def load(*checkpoints, data=FIXTURE / "data", **options):
    options = {"device": "cpu", **options}
    return translation.load(checkpoints or [CHECKPOINT], str(data), **options)


def command(*arguments, checkpoint=CHECKPOINT, data=FIXTURE / "data"):
    words = [str(checkpoint), "--data", str(data), "--cpu", *arguments]
    return translate.main(list(map(str, words)), prog="posattn translate")
