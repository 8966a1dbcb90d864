"""Compute BLEU, chrF, TER and COMET of translations, in the forms that papers report.

    %(prog)s --generated generate-test.txt --language de
    %(prog)s --hypotheses test.hyp --references test.ref --language de --json
    %(prog)s --generated seed?/generate-test.txt --baseline other?/generate-test.txt

sacrebleu            sacreBLEU of detokenized text, with its signature: report this one
tokenised            of the tokens, as by multi-bleu.perl and fairseq-score
tokenised-lowercase  the same, case-insensitive, as reported on IWSLT14
compound-split       tokenised and split at hyphens, as reported on WMT14 English-German;
                     by default only for target language German
chrF2, TER           of detokenized text; lower TER is better
COMET                of detokenized text, with --comet, by the package unbabel-comet

For all but the tokenised forms, Moses tokens are first detokenized by the rules of the target
language. Several files are runs of one system with different seeds: scores are means, with
standard deviations.

In JSON, "bleu", "signature" and "interval" are those of the first of --forms (default: sacrebleu);
each form has its own under "forms"; "warnings" says why a score may be misread. With --baseline,
"baseline", "difference" and "p" are of the same form by paired bootstrap, and "significance" has
them for each score, also by approximate randomization. All numbers but p are in percent.
"""

import argparse
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring import comet, languages
from fairseq_posattn.scoring.bleu import (
    COMPOUNDS,
    FORMS,
    TEXTS,
    Sides,
    bleu_metric,
    group_of,
    running_metrics,
    running_text,
    text_of,
    tokenised_sides,
)
from fairseq_posattn.scoring.command import make_parser, read_baseline, read_pairs
from fairseq_posattn.scoring.moses import looks_tokenised
from fairseq_posattn.scoring.pairs import Pairs
from fairseq_posattn.scoring.result import Result, explained, format_score, numbers_of, total_counts
from fairseq_posattn.scoring.sentence_statistics import write_statistics
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, of_sentences
from fairseq_posattn.text.lines import read_file

SUMMARY = "BLEU, chrF, TER and COMET of translations"
CALLED = {"bleu": "BLEU", "chrf2": "chrF2", "ter": "TER", "comet": "COMET"}
Named = TypeVar("Named")


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    parser = make_parser(__doc__, prog)
    parser.add_argument(
        "--forms",
        nargs="+",
        choices=FORMS,
        metavar="FORM",
        help="forms of BLEU to compute and print; JSON always has chrF2 and TER (default: all, "
        "compound-split only for target language de, with chrF2 and TER)",
    )
    parser.add_argument(
        "--language",
        metavar="LANG",
        help="target language in two letters, for sacreBLEU's tokenizer and detokenization "
        "(default: from fairseq-generate's log, else by the script of the references)",
    )
    parser.add_argument(
        "--text",
        choices=TEXTS,
        default="auto",
        help="the text is Moses' tokens or running (detokenized) text; auto detects it by its "
        "punctuation (default: %(default)s)",
    )
    parser.add_argument(
        "--detokenize", metavar="LANG", help="short for --text moses --language LANG"
    )
    parser.add_argument(
        "--raw-references",
        metavar="FILE",
        help="the references as published, for sacrebleu, chrF2 and TER (default: detokenized)",
    )
    parser.add_argument(
        "--comet",
        metavar="FILE",
        help="also compute COMET; FILE has the sources as published, one a line",
    )
    parser.add_argument(
        "--comet-model",
        default=comet.MODEL,
        metavar="NAME",
        help="model of COMET, downloaded once (default: %(default)s)",
    )
    return parser


def score(options: argparse.Namespace) -> Result:
    pairs = read_pairs(options)
    if options.detokenize is not None:
        if options.language is not None or options.text != "auto":
            raise UsageError("--detokenize: sets --text and --language; leave these out")
        options.language, options.text = options.detokenize, "moses"
    language, warnings = find_language(pairs[0], options.language)
    forms = options.forms or [form for form in FORMS if form != COMPOUNDS or language == "de"]
    for run in pairs:
        warnings += warnings_of_text(run, tokenised_sides(run, options.text), forms, language)
    raw, sources = (path and read_file(path) for path in (options.raw_references, options.comet))
    if sources is not None and len(sources) != len(pairs[0].references):
        raise UsageError(
            f"{options.comet}: {len(sources):,} lines for {len(pairs[0].references):,} scored "
            "sentences; COMET needs the source of each"
        )
    metrics: dict[str, Any] = {form: bleu_metric(form, language) for form in forms}
    metrics |= running_metrics()

    def measure(runs: list[Pairs], names: Collection[str]) -> dict[str, Group]:
        running = [
            running_text(run, tokenised_sides(run, options.text), language, raw) for run in runs
        ]
        texts = {
            name: [text_of(name, *both) for both in zip(runs, running, strict=True)]
            for name in forms
            if name in names
        }
        groups = {name: group_of(metrics[name], texts.get(name, running)) for name in names}
        if sources is not None:
            each = comet.comet_of_each(running, sources, options.comet_model)
            statistics = [of_sentences(scores) for scores in each]
            groups["comet"] = Group(MEAN_OF_SENTENCES, statistics)
        return groups

    first = forms[0]
    groups = measure(pairs, metrics)
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    if sources is not None:
        signatures["comet"] = comet.signature(options.comet_model)
    main = _main(groups, first)
    lines = [
        f"{CALLED.get(name) or f'BLEU {name}':<25} {format_score(group)}   {signatures[name]}"
        for name, group in groups.items()
        if name in forms or name == "comet" or options.forms is None
    ]
    lines.append(explained(main["bleu"]))
    numbers = {
        **numbers_of(main),
        "signature": signatures[first],
        "signatures": _main(signatures, first),
        "forms": {
            form: {"bleu": groups[form].mean, "signature": signatures[form]} for form in forms
        },
    }
    if options.statistics is not None:
        write_statistics(options.statistics, main, pairs[0].references)
    result = Result(numbers, lines, list(dict.fromkeys(warnings)), total_counts(pairs))
    if options.baseline:
        before = measure(read_baseline(options, pairs[0]), [first, *running_metrics()])
        result.compare(main, _main(before, first), CALLED)
    return result


def _main(named: Mapping[str, Named], first: str) -> dict[str, Named]:
    """Return the first form under the name of BLEU, and the scores that are no form of BLEU."""
    others = {name: one for name, one in named.items() if name not in FORMS}
    return {"bleu": named[first], **others}


def find_language(pairs: Pairs, code: str | None) -> tuple[str | None, list[str]]:
    """Return the target language or None, and warnings."""
    if code is not None:
        return languages.known(code), []
    if pairs.language in languages.KNOWN:
        return pairs.language, []
    language = languages.by_script(pairs.references)
    if language is None:
        return None, []
    return language, [f"target language {language} guessed by script; give --language LANG"]


def warnings_of_text(
    pairs: Pairs, sides: Sides, forms: Collection[str], language: str | None
) -> list[str]:
    """Return warnings about scores that may be misread."""
    warnings = []
    without_mecab = languages.tokeniser(language)[1]
    if "sacrebleu" in forms and without_mecab:
        warnings.append(without_mecab)
    if language is None and (sides.hypotheses or sides.references):
        warnings.append(
            "Moses' tokens of an unknown language: detokenized as English for sacrebleu and chrF2; "
            "give --language LANG"
        )
    if set(forms) == {"sacrebleu"}:
        return warnings
    if sides.hypotheses != sides.references:
        tokens, running = ("hypotheses", "references")[:: 1 if sides.hypotheses else -1]
        warnings.append(
            f"the {tokens} are Moses' tokens but the {running} are not: use sacrebleu and "
            "chrF2, not the tokenised forms"
        )
    elif not sides.references and looks_tokenised(pairs.references) is False:
        warnings.append(
            "the text is not tokenized: the tokenised forms split at spaces only and are not "
            "comparable with published ones"
        )
    return warnings
