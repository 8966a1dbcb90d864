"""Compute BLEU, chrF, TER and COMET of translations, in the forms that papers report.

    %(prog)s --generated generate-test.txt --language de
    %(prog)s --hypotheses test.hyp --references test.ref --language de --json
    %(prog)s --generated seed?/generate-test.txt --baseline other?/generate-test.txt

sacrebleu            sacreBLEU of detokenized text, with its signature: report this, or
                     chrF2 for languages without a tokenizer, whose BLEU is of characters
tokenised            of the tokens, as by multi-bleu.perl and fairseq-score
tokenised-lowercase  the same, case-insensitive, as reported on IWSLT14
compound-split       tokenized and split at hyphens, as reported on WMT14 English-German;
                     by default only for target language German
chrF2, TER           of detokenized text; lower TER is better
COMET                with --comet, as computed by comet-score

For all but the tokenised forms, Moses tokens are first detokenized by the rules of the target
language. Several files are runs of one system with different seeds: scores are means, with
standard deviations.

In JSON, "bleu", "signature" and "interval" are of the first of --forms (default: sacrebleu), and
"forms" has all of them; "warnings" has reasons why a score may be misread. With --baseline,
"baseline", "difference" and "p" are of the same form by paired bootstrap, and "significance" has
them for each score, also by approximate randomization. All numbers but p are in percent.
"""

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring import bleu
from fairseq_posattn.scoring.bleu import COMPOUNDS, FORMS, TEXTS, Sides, tokenized_sides
from fairseq_posattn.scoring.commands import score as shared
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.result import Result, numbers_of, total_counts
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, of_sentences
from fairseq_posattn.text.languages import CODES, code_of, tokenizer_of
from fairseq_posattn.text.lines import read_file
from fairseq_posattn.text.moses import WITHOUT_SPACES, rules_warning

CALLED = {"bleu": "BLEU", "chrf2": "chrF2", "ter": "TER", "comet": "COMET"}
Value = TypeVar("Value")


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = shared.text_parser(__doc__, prog)
    about = "forms of BLEU to compute, and to print without chrF2 and TER, which JSON always has "
    about += "(default: sacrebleu for plain text, else all, compound-split only for target "
    about += "language de; JSON always has all)"
    parser.add_argument("--forms", nargs="+", choices=FORMS, metavar="FORM", help=about)
    about = "target language, such as fr or pt_BR, for sacreBLEU's tokenizer and detokenization "
    about += "(default: from fairseq-generate's log, else by the script of the references)"
    parser.add_argument("--language", metavar="LANG", help=about)
    about = "whether the text is Moses' tokens or running (detokenized) text; auto detects it by "
    about += "punctuation (default: %(default)s)"
    parser.add_argument("--text", choices=TEXTS, default="auto", help=about)
    about = "short for --text moses --language LANG"
    parser.add_argument("--detokenize", metavar="LANG", help=about)
    about = "untokenized references, for sacrebleu, chrF2 and TER (default: detokenized)"
    parser.add_argument("--raw-references", metavar="FILE", help=about)
    about = "add COMET: scores of these translations, and of the baseline's, as written by "
    about += "comet-score --to_json FILE (unbabel-comet needs an environment of its own)"
    parser.add_argument("--comet", type=Path, metavar="FILE", help=about)
    return parser


@dataclass(frozen=True)
class Measures:
    """Metrics by name, the forms of BLEU first, and what they need beside hypotheses."""

    forms: list[str]
    language: str | None
    text: str  # kind of text, of TEXTS
    raw: list[str] | None  # untokenized references
    comet: Path | None  # scores

    @cached_property
    def metrics(self) -> dict[str, Any]:
        forms = {form: bleu.bleu_metric(form, self.language) for form in self.forms}
        return {**forms, **bleu.running_metrics()}

    def groups(self, runs: Sequence[Pairs], names: Iterable[str]) -> dict[str, Group]:
        """Return the statistics of the runs by metric, those of COMET last."""
        sides = [tokenized_sides(run, self.text) for run in runs]
        both = zip(runs, sides, strict=True)
        running = [bleu.running_text(*run, self.language, self.raw) for run in both]
        groups = {}
        for name in names:
            texts = running
            if name in self.forms:
                texts = [bleu.text_of(name, *run) for run in zip(runs, running, strict=True)]
            groups[name] = bleu.group_of(self.metrics[name], texts)
        if self.comet is not None:
            each = bleu.comet_of_each(self.comet, list(zip(runs, running, strict=True)))
            groups["comet"] = Group(MEAN_OF_SENTENCES, [of_sentences(scores) for scores in each])
        return groups

    def signatures(self) -> dict[str, str]:
        signatures = {name: str(metric.get_signature()) for name, metric in self.metrics.items()}
        return signatures | ({"comet": f"comet|scores:{self.comet}"} if self.comet else {})

    def main(self, named: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of the first form, as "bleu", and of metrics that are no form."""
        others = {name: value for name, value in named.items() if name not in FORMS}
        return {"bleu": named[self.forms[0]], **others}


def score(options: argparse.Namespace) -> Result:
    pairs, baseline = shared.read_pairs(options)
    if options.detokenize is not None:
        if options.language is not None or options.text != "auto":
            raise UsageError("--detokenize: sets --text and --language; leave these out")
        options.language, options.text = options.detokenize, "moses"
    language, warnings = find_language(pairs[0], options.language)
    raw = options.raw_references and read_file(options.raw_references)
    if raw:
        shared.check_lines(options.raw_references, raw, pairs[0].references)
    forms = options.forms or [form for form in FORMS if form != COMPOUNDS or language == "de"]
    measures = Measures(forms, language, options.text, raw, options.comet)
    is_plain = all(  # running text with punctuation
        tokenized_sides(run, options.text) == Sides(False, False)
        and bleu.looks_tokenized(run.references) is False
        for run in pairs
    )
    shown = ["sacrebleu"] if is_plain and not (options.forms or options.json) else forms
    for run in pairs:
        warnings += warnings_of_text(run, options.text, shown, language)
    for run in baseline:  # compared by the first form alone
        of_text = warnings_of_text(run, options.text, forms[:1], language)
        warnings += [f"baseline: {warning}" for warning in of_text if warning not in warnings]
    warnings += shared.warnings_of_all(pairs, baseline, options)

    groups, signatures = measures.groups(pairs, measures.metrics), measures.signatures()
    scores, form = measures.main(groups), forms[0]
    each = {name: {"bleu": groups[name].mean, "signature": signatures[name]} for name in forms}
    numbers = numbers_of(scores) | {"signature": signatures[form]}
    numbers |= {"signatures": measures.main(signatures), "forms": each}
    unprinted = {*forms} - {*shown} | ({"chrf2", "ter"} if options.forms else set())
    first = "chrf2" if tokenizer_of(language)[0] == "char" else ""
    names = sorted((name for name in groups if name not in unprinted), key=first.__ne__)
    called = {key: CALLED[key] for key in sorted(CALLED, key=first.__ne__) if key not in unprinted}
    lines = [
        f"{CALLED.get(name) or f'BLEU {name}':<25} {groups[name]}   {signatures[name]}"
        for name in names
    ]
    advice = ["report chrF2: BLEU of characters is not comparable with other BLEU"]
    lines += [*(advice if first in names else []), scores["bleu"].explanation]
    result = Result(numbers, lines, list(dict.fromkeys(warnings)), total_counts(pairs))
    before: dict[str, Group] = {}
    if baseline:
        before = measures.main(measures.groups(baseline, [form, *bleu.running_metrics()]))
        result.compare(scores, before, called)
    main, measured = next(iter(called)), ("bleu", "chrf2")
    shared.add_details(result, options, pairs, scores, before, {main: called[main]}, measured)
    return result


def find_language(pairs: Pairs, code: str | None) -> tuple[str | None, list[str]]:
    if code is not None:
        return bleu.known_language(code), []
    if pairs.language and code_of(pairs.language) in CODES:
        return code_of(pairs.language), []
    language = bleu.language_by_script(pairs.references)
    warning = f"target language {language} guessed by script; give --language LANG"
    return language, [warning] if language else []


def warnings_of_text(
    pairs: Pairs, text: str, forms: Collection[str], language: str | None
) -> list[str]:
    warnings, sides = [], tokenized_sides(pairs, text)
    unusual = tokenizer_of(language)[1]
    if "sacrebleu" in forms and unusual:
        warnings.append(unusual)
    if language in WITHOUT_SPACES:
        warnings.append(f"language {language}: TER counts words between spaces, which say little")
    if sides.hypotheses or sides.references:
        unknown = "Moses' tokens of an unknown language are read as English; give --language LANG"
        warnings += filter(None, [rules_warning(language) if language else unknown])
    if set(forms) == {"sacrebleu"}:
        return warnings
    if sides.hypotheses != sides.references:
        tokens, running = ("hypotheses", "references")[:: 1 if sides.hypotheses else -1]
        fix = "use sacrebleu and chrF2; if both are plain text, give --text running"
        warnings.append(f"the {tokens} are Moses' tokens but the {running} are not: {fix}")
    elif not sides.references and bleu.looks_tokenized(pairs.references) is False:
        warnings.append(
            "the text is not tokenized: the tokenised forms split at spaces only and are not "
            "comparable with published scores"
        )
    return warnings
