"""What was found: the papers' mechanisms and their peers beside plain attention; their claims."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from fairseq_posattn.recipes.classification import LOWER_IS_BETTER
from fairseq_posattn.recipes.comparisons import (
    BASELINES,
    SIGNIFICANT,
    Comparison,
    baseline_of,
    counted,
)
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.tables import ours, signed
from tools.pages.results import Results
from tools.pages.tables import (
    NAMES,
    UNPUBLISHED,
    Table,
    compare_rows,
    difference,
    listed,
    tables_of,
)

# The papers' models, by the names that tables have for them.
MECHANISMS = {
    "mpsan": "MPSAN",
    "mtsa": "MTSA",
    "cspan": "CSPAN",
    "cspan (base)": "CSPAN",
    "da_transformer": "DA",
    "da-transformer": "DA",
    "dman": "DMAN",
    "dman (text)": "DMAN (text)",
    "dman (released)": "DMAN",
    "dman (paper)": "DMAN (text)",
}
# What the papers compare them with, likewise.
PEERS = {
    "rpr": "RPR",
    "transformer_xl": "Transformer-XL",
    "transformer-xl": "Transformer-XL",
    "multi_head": "multi-head",
    "bilstm": "Bi-LSTM",
    "bi-lstm": "Bi-LSTM",
    "cnn": "CNN",
    "multi-cnn": "CNN",
    "transformer_without_positions": "no positions",
}
VERDICTS = {
    "better": "better than plain attention",
    "worse": "worse than plain attention",
    "undecided": "within chance",
    "not tested": "not tested",
}
# Data sets: of fewer, no difference could have p < SIGNIFICANT.
FEWEST = 6


@dataclass(frozen=True)
class Finding:
    """A mechanism, or a peer, beside plain attention, as we measured it.

    Attributes:
        mechanism: by its name in :data:`MECHANISMS` or :data:`PEERS`.
        family, data: the title of the table in two parts; the second is what was measured on.
        metric: the first of the table.
        plain: what plain attention has, as it is shown.
        difference: of the mechanism from that.
        runs: of the mechanism.
        tested: what is known of its certainty; None of single runs.
    """

    mechanism: str
    family: str
    data: str
    metric: str
    plain: str
    difference: float
    runs: int
    tested: Comparison | None

    @property
    def verdict(self) -> str:
        """One of :data:`VERDICTS`."""
        if self.tested is None:
            return "not tested"
        if self.tested["metrics"][self.metric]["p"] >= SIGNIFICANT:
            return "undecided"
        return "better" if (self.difference > 0) != (self.metric in LOWER_IS_BETTER) else "worse"

    @property
    def size(self) -> str:
        """The difference and its p, in bold where it is more than chance."""
        if self.tested is None:
            return f"{signed(self.difference, self.metric)} (not tested)"
        return difference(self.difference, self.tested["metrics"][self.metric]["p"], self.metric)

    @property
    def models(self) -> str:
        """Which models the table is of, by the end of its title."""
        return self.family.rpartition(", ")[2]

    @property
    def number(self) -> str:
        """Of how much the difference is."""
        return counted(self.tested) if self.tested else f"{self.runs} run{'s' * (self.runs > 1)}"


def find(results: Results, names: Mapping[str, str] = MECHANISMS) -> list[Finding]:
    """All that tables with a row of plain attention have to say of some models, by their names.

    Tables may share models: what two of them say alike is said once.
    """
    found: dict[tuple[object, ...], Finding] = {}
    for table in tables_of(results):
        for one in _of_table(table, results, names):
            alike = one.mechanism, one.data, one.metric, one.plain, one.difference, one.runs
            found.setdefault(alike, one)
    return list(found.values())


def _of_table(table: Table, results: Results, names: Mapping[str, str]) -> Iterator[Finding]:
    rows = {entry.row: results.rows.get((table.title, entry.row)) for entry in table.entries}
    first = baseline_of(list(rows))
    plain = rows[first]
    if plain is None or first.lower() not in BASELINES:
        return
    compared, metric = compare_rows(rows), table.entries[0].metrics[0]
    family, _, data = table.title.rpartition(": ")
    for name, row in rows.items():
        # Rows of other data, of other settings for one, are no comparison.
        if row and name.lower() in names and row["data"] == plain["data"]:
            scores, theirs = (one["scores"].get(metric, []) for one in (row, plain))
            if not (scores and theirs):
                continue
            gained, tested = fmean(scores) - fmean(theirs), compared.get(name)
            if tested and metric not in tested["metrics"]:
                tested = None
            if tested:  # of folds, the difference on all their sentences together
                gained = tested["metrics"][metric]["difference"]
            yield Finding(
                mechanism=names[name.lower()],
                family=family or data,
                data=data,
                metric=metric,
                plain=ours(plain, metric),
                difference=gained,
                runs=len(scores),
                tested=tested,
            )


# --- The places --------------------------------------------------------------------------------


def in_short(results: Results) -> str:
    """Of each mechanism where it helps; then how many differences chance alone would show."""
    found = find(results)
    lines = []
    for mechanism in _columns(found, MECHANISMS):
        parts = []
        for verdict, words in VERDICTS.items():
            where = dict.fromkeys(  # what several tables measured on alike is named once
                _measured_on(one, found)
                for one in found
                if (one.mechanism, one.verdict) == (mechanism, verdict)
            )
            parts += [f"{words}: {', '.join(where)}"] if where else []
        lines.append(f"- **{mechanism}** {'; '.join(parts)}.")
    tested = [one for one in found if one.tested]
    beyond = [one for one in tested if one.verdict != "undecided"]
    lines.append(
        f"\nDifferences that were tested: {len(tested)}; with p < {SIGNIFICANT}: {len(beyond)}, "
        f"where chance alone would show about {SIGNIFICANT * len(tested):.1f}, and of three runs "
        "up to twice as many."
    )
    return "\n".join(lines)


def beside_plain_attention(results: Results, names: Mapping[str, str] = MECHANISMS) -> str:
    """The differences, a table for each family of tables."""
    found = find(results, names)
    texts = []
    for family in dict.fromkeys(one.family for one in found):
        members = [one for one in found if one.family == family]
        columns = _columns(members, names)
        lines = [
            f"| {family} | plain attention | {' | '.join(columns)} | n |",
            f"|---|---:|{'---:|' * len(columns)}---|",
        ]
        for data in dict.fromkeys(one.data for one in members):
            row = {one.mechanism: one for one in members if one.data == data}
            one = next(iter(row.values()))
            cells = [row[name].size if name in row else "" for name in columns]
            counts = ", or ".join(dict.fromkeys(one.number for one in row.values()))
            metric = NAMES.get(one.metric, one.metric)
            name = metric if data == family else f"{data}, {metric}"
            lines.append(f"| {name} | {one.plain} | {' | '.join(cells)} | {counts} |")
        lines += _over_data_sets(members, columns)
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _over_data_sets(members: Sequence[Finding], columns: Sequence[str]) -> Iterator[str]:
    """Of each metric the mean differences, tested over data sets, where there are enough."""
    from scipy.stats import wilcoxon  # only here: it takes a second

    for metric in dict.fromkeys(one.metric for one in members):
        measured = [one for one in members if one.metric == metric]
        count = len({one.data for one in measured})
        if count < FEWEST:
            continue
        cells = []
        for mechanism in columns:
            found = [one.difference for one in measured if one.mechanism == mechanism]
            whole = len(found) == count
            p = float(wilcoxon(found).pvalue) if whole else 1.0
            cells.append(difference(fmean(found), p, metric) if whole else "")
        name = f"mean {NAMES.get(metric, metric)}"
        yield f"| {name} |  | {' | '.join(cells)} | {count} data sets |"


def claims(results: Results) -> str:
    """What the papers print of their mechanism beside plain attention, and what we have of it."""
    found = find(results)
    lines = ["| | data | the paper's difference | ours |", "|---|---|---:|---|"]
    for table in listed():
        metric = table.entries[0].metrics[0]
        numbers = {entry.row.lower(): _published(entry) for entry in table.entries}
        first = baseline_of(list(numbers))
        plain = numbers[first]
        if plain is None or first not in BASELINES:
            continue
        family, _, data = table.title.rpartition(": ")
        for name, number in numbers.items():
            if name not in MECHANISMS or number is None:
                continue
            here = [one for one in found if (one.mechanism, one.data) == (MECHANISMS[name], data)]
            cells = [
                family.partition(":")[0],
                f"{data}, {NAMES.get(metric, metric)}",
                signed(number - plain, metric),
                "; ".join(_told(one, len(here) > 1) for one in here) or "not measured",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PLACES: dict[str, Callable[[Results], str]] = {
    "findings in short": in_short,
    "findings": beside_plain_attention,
    "findings of the peers": partial(beside_plain_attention, names=PEERS),
    "findings of the papers": claims,
}


def _measured_on(one: Finding, found: Sequence[Finding]) -> str:
    """The data, and the models where others show something else on it."""
    verdicts = {
        other.verdict
        for other in found
        if (other.mechanism, other.data) == (one.mechanism, one.data)
    }
    return one.data if len(verdicts) == 1 else f"{one.data} ({one.models})"


def _told(one: Finding, among_others: bool) -> str:
    """Of a paper's claim what we have, and of which models where there are several."""
    told = f"{one.size}, {one.verdict}" if one.tested else one.size
    return f"{told} ({one.models})" if among_others else told


def _columns(found: Sequence[Finding], names: Mapping[str, str]) -> list[str]:
    """The mechanisms that there are, in one order everywhere."""
    there = {one.mechanism for one in found}
    return [name for name in dict.fromkeys(names.values()) if name in there]


def _published(entry: Entry) -> float | None:
    """The first number of a row."""
    number = entry.paper[0].partition("±")[0]
    return None if number in UNPUBLISHED else float(number)
