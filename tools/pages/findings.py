"""Findings: mechanisms and their peers beside plain attention, and the papers' claims."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import fmean

from fairseq_posattn.common.errors import counted
from fairseq_posattn.recipes.comparisons import BASELINES, SIGNIFICANT, Comparison, describe_counts
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.recipe import LENGTHS
from fairseq_posattn.recipes.tables import difference, markdown_table, name_of, ours, signed
from fairseq_posattn.scoring.significance import SAMPLES, corrected
from fairseq_posattn.text.manifest import LOWER_IS_BETTER
from tools.pages.tables import UNPUBLISHED, Results, Table, compare_rows, listed, tables_of

FULL_SIZE = "full size"  # models of a paper's table
# The papers' models, by their names in tables (lower case, with hyphens).
MECHANISMS = {
    **{"mpsan": "MPSAN", "mtsa": "MTSA", "cspan": "CSPAN", "cspan (base)": "CSPAN"},
    "transfer + mtsa": "MTSA on a language model",
    "da-transformer": "DA",
    **dict.fromkeys(("dman", "dman (released form)"), "DMAN"),
    "dman (paper form)": "DMAN (paper form)",
}
# The models that the papers compare them with, and later models.
PEERS = {
    **dict.fromkeys(("rpr", "transformer-rpr"), "RPR"),
    **{"transformer-xl": "Transformer-XL", "multi-head": "multi-head"},
    "adapted transformer": "TENER",
    **dict.fromkeys(("bilstm", "bi-lstm"), "Bi-LSTM"),
    **dict.fromkeys(("cnn", "multi-cnn"), "CNN"),
    **{"rope": "RoPE", "alibi": "ALiBi", "t5": "T5", "kerple": "KERPLE", "fire": "FIRE"},
    **dict.fromkeys(("transformer-without-positions", "no positions"), "no positions"),
}
VERDICTS = {
    "better": "better than plain attention on",
    "worse": "worse on",
    "uncorrected": "significant only if not corrected on",
    "undecided": "not significant on",
    "not tested": "not tested on",
}
# With fewer data sets no Wilcoxon test can give p < SIGNIFICANT.
FEWEST = 6


@dataclass(frozen=True)
class Finding:
    """A measured model beside plain attention on one data set."""

    mechanism: str
    family: str  # the table's title without the data set
    data: str
    metric: str  # the table's first
    plain: str  # score of plain attention
    difference: float  # from that
    runs: int
    tested: Comparison | None  # None for single runs
    holm: float = 1.0  # p corrected for the number of findings, by Holm
    rate: float = 1.0  # and by Benjamini and Hochberg

    @property
    def p(self) -> float | None:
        """The probability of such a difference by chance, if it was tested."""
        return self.tested["metrics"][self.metric]["p"] if self.tested else None

    @property
    def verdict(self) -> str:
        """A key of :data:`VERDICTS`, corrected by Benjamini and Hochberg."""
        if self.p is None:
            return "not tested"
        if self.rate >= SIGNIFICANT:
            return "undecided" if self.p >= SIGNIFICANT else "uncorrected"
        is_gain = (self.difference > 0) != (self.metric in LOWER_IS_BETTER)
        return "better" if is_gain else "worse"

    @property
    def size(self) -> str:
        """The difference and its p, in bold if significant when corrected."""
        if self.p is None:
            return f"{signed(self.difference, self.metric)} (not tested)"
        return difference(self.difference, self.p, self.metric, self.rate)

    @property
    def models(self) -> str:
        """The kind of models, from the end of the family."""
        of_paper = re.search(r", (Table|Figure) \d", self.family)
        return FULL_SIZE if of_paper else self.family.rpartition(", ")[2]

    @property
    def number(self) -> str:
        """The number of sentences and runs."""
        return describe_counts(self.tested) if self.tested else counted(self.runs, "run")


def find(
    results: Results, names: Mapping[str, str] = MECHANISMS, baseline: str | None = None
) -> list[Finding]:
    """Return the findings of all tables with a row of plain attention, without duplicates.

    ``baseline`` is the key of another row to compare with. p is corrected for all findings.
    """
    findings: dict[tuple[object, ...], Finding] = {}
    for table in tables_of(results):
        for new in _of_table(table, results, names, baseline):
            # Tables may share models.
            key = new.mechanism, new.data, new.metric, new.plain, new.difference, new.runs
            findings.setdefault(key, new)
    unique = list(findings.values())
    tested = [index for index, finding in enumerate(unique) if finding.p is not None]
    adjusted = corrected([unique[index].p or 0.0 for index in tested])
    for index, (holm, rate) in zip(tested, adjusted, strict=True):
        unique[index] = replace(unique[index], holm=holm, rate=rate)
    return unique


def _of_table(
    table: Table, results: Results, names: Mapping[str, str], baseline: str | None
) -> Iterator[Finding]:
    rows = {entry.row: results.rows.get((table.title, entry.row)) for entry in table.entries}
    wanted = [baseline] if baseline else BASELINES
    first = next((row for key in wanted for row in rows if _key(row) == key), None)
    plain = first and rows[first]
    if not (first and plain):
        return
    compared, metric = compare_rows(rows, first), table.entries[0].metrics[0]
    family, _, data = table.title.rpartition(": ")
    if LENGTHS in metric:  # see by_length
        return
    for name, row in rows.items():
        # Rows with other data (or its preparation) cannot be compared.
        mechanism = names.get(_key(name))
        if not row or not mechanism or name == first or row["data"] != plain["data"]:
            continue
        scores, theirs = (result["scores"].get(metric, []) for result in (row, plain))
        if not (scores and theirs):
            continue
        tested = compared.get(name)
        if tested is None or metric not in tested["metrics"]:
            tested, gain = None, fmean(scores) - fmean(theirs)
        else:  # with folds, the difference over the sentences of all folds
            gain = tested["metrics"][metric]["difference"]
        score = ours(plain, metric)
        yield Finding(mechanism, family or data, data, metric, score, gain, len(scores), tested)


def in_short(results: Results) -> str:
    """Return a list item for each mechanism, and sentences about the number of tests."""
    findings = find(results)
    lines = []
    for mechanism in _columns(findings, MECHANISMS):
        members = [finding for finding in findings if finding.mechanism == mechanism]
        parts = []
        for verdict, words in VERDICTS.items():
            chosen = [member for member in members if member.verdict == verdict]
            data = dict.fromkeys(_data_name(member, members) + _gain(member) for member in chosen)
            parts += [f"{words} {', '.join(data)}"] if data else []
        lines.append(f"- **{mechanism}**: {'; '.join(parts)}.")
    tested = [finding for finding in findings if finding.p is not None]
    single, rate, holm = (
        [finding for finding in tested if getattr(finding, kind) < SIGNIFICANT]
        for kind in ("p", "rate", "holm")
    )
    named = ", ".join(f"{finding.mechanism} on {finding.data}" for finding in holm) or "none"
    lines.append(
        f"\n{len(single)} of {len(tested)} tested differences have p < {SIGNIFICANT}; without any "
        f"true difference about {SIGNIFICANT * len(tested):.1f} would, and up to twice as many "
        f"with three runs. Significant when corrected for the number of tests: "
        f"{len(rate)} by Benjamini and Hochberg's method, which this page uses, "
        f"{len(holm)} by Holm's ({named}). "
        f"The bootstrap has no p below {1 / (SAMPLES + 1):.3f}: more than "
        f"{SIGNIFICANT * (SAMPLES + 1):.0f} tests cannot pass Holm's by it."
    )
    return "\n".join(lines)


def _gain(finding: Finding) -> str:
    is_significant = finding.p is not None and finding.p < SIGNIFICANT
    return f" {signed(finding.difference, finding.metric)}" if is_significant else ""


def beside_plain_attention(results: Results, names: Mapping[str, str] = MECHANISMS) -> str:
    """Return a table of differences for each family of tables."""
    findings = find(results, names)
    texts = []
    for family in dict.fromkeys(finding.family for finding in findings):
        members = [finding for finding in findings if finding.family == family]
        columns = _columns(members, names)
        rows = []
        for data in dict.fromkeys(member.data for member in members):
            row = {member.mechanism: member for member in members if member.data == data}
            first = next(iter(row.values()))
            name = name_of(first.metric) if data == family else f"{data}, {name_of(first.metric)}"
            counts = ", or ".join(dict.fromkeys(member.number for member in row.values()))
            cells = [row[name].size if name in row else "" for name in columns]
            rows.append([name, first.plain, *cells, counts])
        rows += _means(members, columns)
        texts.append(markdown_table([family, "plain attention", *columns, "n"], rows))
    return "\n\n".join(texts)


def by_length(results: Results) -> str:
    """Return a list item for each mechanism of tables whose metrics are of ranges of lengths.

    Bold differences are significant when corrected for all of the table's tests, by Holm.
    """
    lines = []
    for table in tables_of(results):
        metrics = table.entries[0].metrics
        rows = {entry.row: results.rows.get((table.title, entry.row)) for entry in table.entries}
        if LENGTHS not in metrics[0] or not any(rows.values()):
            continue
        compared = {name: comparison["metrics"] for name, comparison in compare_rows(rows).items()}
        adjusted = iter(
            corrected([test["p"] for each in compared.values() for test in each.values()])
        )
        for name, each in compared.items():
            parts = []
            for metric, test in each.items():
                holm, _ = next(adjusted)
                size = difference(test["difference"], test["p"], metric, holm)
                parts.append(f"{size} at {metric.partition(' ')[2]} words")
            lines.append(f"- **{name}**: {', '.join(parts)}.")
    return "\n".join(lines) or "Not measured yet."


def _means(members: Sequence[Finding], columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield a row of mean differences, tested over data sets, for each metric with enough.

    Bold differences are significant when corrected for the row's tests, by Benjamini and Hochberg.
    """
    from scipy.stats import wilcoxon  # deferred: takes a second to import

    for metric in dict.fromkeys(member.metric for member in members):
        measured = [member for member in members if member.metric == metric]
        count = len({member.data for member in measured})
        if count < FEWEST:
            continue
        sizes = {
            mechanism: [member.difference for member in measured if member.mechanism == mechanism]
            for mechanism in columns
        }
        ps = {name: wilcoxon(each).pvalue for name, each in sizes.items() if len(each) == count}
        tests = zip(ps.items(), corrected(list(ps.values())), strict=True)
        cells = {
            name: difference(fmean(sizes[name]), p, metric, rate) for (name, p), (_, rate) in tests
        }
        row = [cells.get(name, "") for name in columns]
        yield [f"mean {name_of(metric)}", "", *row, f"{count} data sets"]


def claims(results: Results) -> str:
    """Return a table of the papers' differences from their own baselines beside ours."""
    here = cache(lambda baseline: find(results, baseline=baseline))
    rows = []
    for table in listed():
        metric = table.entries[0].metrics[0]
        each = {entry.row: _published(entry) for entry in table.entries}
        numbers = {name: number for name, number in each.items() if number is not None}
        family, _, data = table.title.rpartition(": ")
        start = [family.partition(":")[0], f"{data}, {name_of(metric)}"]
        for name in numbers:
            for baseline in _baselines(numbers, name):
                key = MECHANISMS[_key(name)], data
                same = [f for f in here(_key(baseline)) if (f.mechanism, f.data) == key]
                kinds = same[1:] or any(f.models == FULL_SIZE for f in same)
                sizes = [f"{f.size} ({f.models})" if kinds else f.size for f in same]
                claim = signed(numbers[name] - numbers[baseline], metric)
                end = [f"{name} - {baseline}", claim, "; ".join(sizes) or "not run"]
                rows.append([*start, *end])
    return markdown_table(["", "data", "difference", "paper", "ours"], rows, left=3)


def _baselines(numbers: Mapping[str, float], name: str) -> list[str]:
    """Return the rows with which a paper compares its mechanism: plain attention.

    DA-Transformer's paper also tests the difference from its second-best model.
    """
    if _key(name) not in MECHANISMS:
        return []
    others = [row for row in numbers if row != name]
    baselines = [row for row in others if _key(row).removeprefix("transfer + ") in BASELINES]
    if _key(name) == "da-transformer":
        baselines.append(max(others, key=numbers.__getitem__))
    return list(dict.fromkeys(baselines))


BLOCKS: dict[str, Callable[[Results], str]] = {
    "findings in short": in_short,
    "findings": beside_plain_attention,
    "findings of the peers": partial(beside_plain_attention, names=PEERS),
    "findings by length": by_length,
    "findings of the papers": claims,
}


def _data_name(finding: Finding, findings: Sequence[Finding]) -> str:
    """Return the data set, with the models where others have another verdict or gain on it."""
    shown = {(other.verdict, _gain(other)) for other in findings if other.data == finding.data}
    return finding.data if len(shown) == 1 else f"{finding.data} ({finding.models})"


def _key(name: str) -> str:
    return name.lower().replace("_", "-")


def _columns(findings: Sequence[Finding], names: Mapping[str, str]) -> list[str]:
    present = {finding.mechanism for finding in findings}
    return [name for name in dict.fromkeys(names.values()) if name in present]


def _published(entry: Entry) -> float | None:
    """Return the first published number of a row."""
    number = entry.paper[0].partition("±")[0]
    return None if number in UNPUBLISHED else float(number)
