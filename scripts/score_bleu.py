#!/usr/bin/env python3
"""BLEU of translations, in the forms in which papers report it.

    python scripts/score_bleu.py --generated generate-test.txt --detokenize de
    python scripts/score_bleu.py --hypotheses test.hyp --references test.ref --json

sacrebleu            sacreBLEU of running text, with its signature: the one to report
tokenised            of the tokens as they are, as multi-bleu.perl and fairseq-score have it
tokenised-lowercase  the same, case-insensitive, as papers have it on IWSLT14
compound-split       tokenised, words taken apart at hyphens, as papers have it on WMT14
                     English-German

In JSON, "bleu" and "signature" are those of the first of --forms, which is sacrebleu if all are
computed; each form has its own under "forms". Everything is in percent.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs in a checkout, too

from scoring.bleu import FORMS, bleu, looks_tokenised  # noqa: E402
from scoring.command import describe, make_parser, run  # noqa: E402

from fairseq_posattn.preparation.pipeline.progress import say  # noqa: E402
from fairseq_posattn.preparation.text.lines import read_lines  # noqa: E402


def parser():
    parser = make_parser(__doc__)
    parser.add_argument(
        "--forms",
        nargs="+",
        choices=FORMS,
        default=FORMS,
        metavar="FORM",
        help="which to compute (default: all)",
    )
    parser.add_argument(
        "--detokenize",
        metavar="LANG",
        help="the text is in Moses tokens of this language (en, de): undo that for sacrebleu",
    )
    parser.add_argument(
        "--raw-references",
        metavar="FILE",
        help="for sacrebleu, the references as published, instead of detokenised ones",
    )
    return parser


def score(pairs, options):
    raw = None
    if options.raw_references is not None:
        with open(options.raw_references, "rb") as stream:
            raw = list(read_lines(stream, options.raw_references))
    if (
        "sacrebleu" in options.forms
        and not options.detokenize
        and looks_tokenised(pairs.references)
    ):
        say("warning: the text looks tokenised; for sacrebleu give --detokenize LANG")
    scores = {
        form: bleu(pairs, form, options.detokenize, raw) for form in dict.fromkeys(options.forms)
    }
    first = scores[options.forms[0]]
    result = {
        "bleu": first.score,
        "signature": first.signature,
        "forms": {
            form: {"bleu": score.score, "signature": score.signature}
            for form, score in scores.items()
        },
        "counts": pairs.counts(),
    }
    lines = [f"BLEU {form:<20} {one.score:6.2f}   {one.signature}" for form, one in scores.items()]
    return result, [*lines, describe(pairs.counts())]


if __name__ == "__main__":
    sys.exit(run(parser(), score))
