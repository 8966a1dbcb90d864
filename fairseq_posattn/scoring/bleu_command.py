"""BLEU, chrF and TER of translations, in the forms in which papers report them.

    %(prog)s --generated generate-test.txt --language de
    %(prog)s --hypotheses test.hyp --references test.ref --language de --json

sacrebleu            sacreBLEU of running text, with its signature: the one to report
tokenised            of the tokens as they are, as multi-bleu.perl and fairseq-score have it
tokenised-lowercase  the same, case-insensitive, as papers have it on IWSLT14
compound-split       tokenised, words taken apart at hyphens, as papers have it on WMT14
                     English-German
chrF2, TER           of running text; the lower TER, the better

For sacrebleu, chrF2 and TER, text that is in Moses tokens, escaped or not, is first joined to
running text by the rules of the target language. In JSON, "bleu" and "signature" are those of the
first of --forms, which is sacrebleu if all are computed; each form has its own under "forms", and
"warnings" says what makes a score mean something else than it seems to. With --baseline,
"baseline", "difference" and "p" are of the same form by paired bootstrap, and "significance" has
them for each score, by approximate randomisation, too. Everything but p is in percent.
"""

import argparse
from collections.abc import Collection

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.text.lines import read_lines
from fairseq_posattn.scoring import languages
from fairseq_posattn.scoring.bleu import (
    FORMS,
    TEXTS,
    Sides,
    bleu_metric,
    running_metrics,
    running_text,
    score_of,
    text_of,
    tokenised_sides,
)
from fairseq_posattn.scoring.command import Result, add_comparisons, make_parser, read_baseline
from fairseq_posattn.scoring.moses import looks_tokenised
from fairseq_posattn.scoring.pairs import Pairs
from fairseq_posattn.scoring.significance import compare

SUMMARY = "BLEU, chrF and TER of translations"
CALLED = {"bleu": "BLEU", "chrf2": "chrF2", "ter": "TER"}


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = make_parser(__doc__, prog)
    parser.add_argument(
        "--forms",
        nargs="+",
        choices=FORMS,
        default=FORMS,
        metavar="FORM",
        help="which to compute (default: all)",
    )
    parser.add_argument(
        "--language",
        metavar="LANG",
        help="target language, in two letters: how sacrebleu counts words and how tokens are "
        "joined (default: what fairseq-generate's log says, or else the script of the references)",
    )
    parser.add_argument(
        "--text",
        choices=TEXTS,
        default="auto",
        help="what the text is: Moses' tokens or running text; auto goes by how its full stops and "
        "commas stand (default: %(default)s)",
    )
    parser.add_argument(
        "--detokenize", metavar="LANG", help="short for --text moses --language LANG"
    )
    parser.add_argument(
        "--raw-references",
        metavar="FILE",
        help="for sacrebleu and chrF2, the references as published, instead of detokenised ones",
    )
    return parser


def score(pairs: Pairs, options: argparse.Namespace) -> Result:
    if options.detokenize is not None:
        if options.language is not None or options.text != "auto":
            raise UsageError("--detokenize says both --text and --language: leave these out")
        options.language, options.text = options.detokenize, "moses"
    language, warnings = find_language(pairs, options.language)
    raw = None
    if options.raw_references is not None:
        with open(options.raw_references, "rb") as stream:
            raw = list(read_lines(stream, options.raw_references))
    sides = tokenised_sides(pairs, options.text)
    running = running_text(pairs, sides, language, raw)
    warnings += warnings_of_text(pairs, sides, options.forms, language)
    scores = {
        form: score_of(bleu_metric(form, language), text_of(form, pairs, running))
        for form in dict.fromkeys(options.forms)
    }
    others = {name: score_of(metric, running) for name, metric in running_metrics().items()}
    first = scores[options.forms[0]]
    main = {"bleu": first, **others}
    lines = [f"BLEU {form:<20} {one.score:6.2f}   {one.signature}" for form, one in scores.items()]
    lines += [
        f"{CALLED[name]:<25} {one.score:6.2f}   {one.signature}" for name, one in others.items()
    ]
    numbers = {
        **{name: one.score for name, one in main.items()},
        "signature": first.signature,
        "signatures": {name: one.signature for name, one in main.items()},
        "forms": {
            form: {"bleu": one.score, "signature": one.signature} for form, one in scores.items()
        },
    }
    if options.baseline is not None:
        baseline = read_baseline(options, pairs)
        before = running_text(baseline, tokenised_sides(baseline, options.text), language, raw)
        form = options.forms[0]
        old, new = text_of(form, baseline, before), text_of(form, pairs, running)
        compared = compare(
            {"bleu": bleu_metric(form, language)}, new.hypotheses, old.hypotheses, new.references
        ) | compare(running_metrics(), running.hypotheses, before.hypotheses, running.references)
        add_comparisons(numbers, lines, compared, CALLED)
    return Result(numbers, lines, warnings)


def find_language(pairs: Pairs, asked: str | None) -> tuple[str | None, list[str]]:
    """The target language, None if nothing says which it is, and what to warn of."""
    if asked is not None:
        return languages.known(asked), []
    if pairs.language in languages.KNOWN:
        return pairs.language, []
    language = languages.by_script(pairs.references)
    if language is None:
        return None, []
    return language, [f"the references are taken for {language}, by script; give --language LANG"]


def warnings_of_text(
    pairs: Pairs, sides: Sides, forms: Collection[str], language: str | None
) -> list[str]:
    """What to know of scores that are not quite what their names say."""
    warnings = []
    without_mecab = languages.tokeniser(language)[1]
    if "sacrebleu" in forms and without_mecab:
        warnings.append(without_mecab)
    if language is None and (sides.hypotheses or sides.references):
        warnings.append(
            "the text is in Moses' tokens of a language that is not given: for sacrebleu, chrF2 "
            "they were joined as in English; give --language LANG"
        )
    if set(forms) == {"sacrebleu"}:
        return warnings
    if sides.hypotheses != sides.references:
        tokens, running = ("hypotheses", "references")[:: 1 if sides.hypotheses else -1]
        warnings.append(
            f"the {tokens} are Moses' tokens and the {running} running text: the tokenised forms "
            "compare unlike with unlike, only sacrebleu and chrF2 hold"
        )
    elif not sides.references and looks_tokenised(pairs.references) is False:
        warnings.append(
            "the text is running text: the tokenised forms take what stands between spaces for "
            "tokens, marks included, and compare with no paper's"
        )
    return warnings
