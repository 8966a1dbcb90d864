"""A table with the outputs, settings and versions of its runs in one archive, and its verification.

``rows/N`` has a folder for each fold and seed of the row N, ``text`` the test set's text.
"""

import hashlib
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import product, repeat, zip_longest
from pathlib import Path
from typing import Any

from fairseq_posattn.common.archives import unpack_tar
from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.common.files import writing
from fairseq_posattn.recipes.classification import SCORE_RANKING
from fairseq_posattn.recipes.comparisons import add_comparisons, read_kept, read_predictions
from fairseq_posattn.recipes.generation import SCORING, score_generated, score_lead
from fairseq_posattn.recipes.plan import Plan
from fairseq_posattn.recipes.processes import capture
from fairseq_posattn.recipes.recipe import LAYER, TableRow
from fairseq_posattn.recipes.results import read_object, scores_in, versions
from fairseq_posattn.recipes.rows import MALFORMED, files_of, require_form, run_folders
from fairseq_posattn.recipes.runs import OUTPUT, PREDICTIONS, RANKING, STATISTICS
from fairseq_posattn.scoring.ranking import METRICS
from fairseq_posattn.scoring.result import metric_of
from fairseq_posattn.scoring.significance import Group, digits_of

TABLE = "table.json"
FILES = (
    *("result.json", "score.json", "ranking.json", "cost.json", "locality.json"),
    *(OUTPUT, PREDICTIONS, RANKING, STATISTICS),
)
TESTED = ("difference", "p", "p_randomisation", "p_holm", "p_benjamini_hochberg")
P_ROUNDING = 0.002  # two of the bootstrap's 1,000 samples
BLOCK = 1 << 20  # bytes
# Name, stored and recomputed number, None if it is missing, and the difference that is rounding.
Check = tuple[str, Any, Any, float]
Intervals = Mapping[str, Any]  # the ends by metric
SENTENCE = re.compile(rb"[A-Z]-\d+\t")  # line of fairseq-generate


def write_bundle(path: Path, plan: Plan, rows: Sequence[TableRow]) -> None:
    """Write the archive of a table. Paths of this machine, except in texts, become names."""
    named = {folder: folder.name for folder in plan.folders()}
    named |= {plan.out: "OUT", Path(plan.user_dir): Path(plan.user_dir).name}

    def portable(text: bytes) -> bytes:
        lines = text.split(b"\n")
        for number, line in enumerate(lines):
            for folder in sorted(named, key=lambda folder: len(str(folder)), reverse=True):
                if not SENTENCE.match(line):
                    line = line.replace(os.fsencode(folder), os.fsencode(named[folder]))
            lines[number] = line
        return b"\n".join(lines)

    data = {folder.name: _fingerprints(folder) for folder in plan.folders()}
    content: dict[str, Any] = {"title": plan.title, "baseline": plan.recipe.baseline, "rows": rows}
    content |= {"versions": versions(), "data": data}
    with writing(path, binary=True) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:

        def add(name: str, text: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, BytesIO(text))

        add(TABLE, portable(json.dumps(content, ensure_ascii=False, indent=1).encode()))
        for side in plan.texts():
            add(f"text/{side.name}", side.read_bytes())
        for number, entry in enumerate(plan.entries()):
            for name in FILES:
                for _, output in files_of(entry.folder, name):
                    text = output.read_bytes()
                    text = text if name in (PREDICTIONS, RANKING) else portable(text)
                    add(f"rows/{number}/{output.parent.name}/{name}", text)
    print(f"bundle: {path}")


def _fingerprints(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of prepared data."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while block := file.read(BLOCK):
                    digest.update(block)
            digests[str(path.relative_to(folder))] = digest.hexdigest()
    return digests


def verify(path: Path) -> int:
    """Recompute and print the scores and p values of an archive; return 1 if one differs.

    The archive may be a stranger's: it has files alone, and nothing in it is run.
    """
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        unpack_tar(path, folder)
        try:
            for name, stored, recomputed, rounding in _checks(path, Path(folder)):
                is_known = None not in (stored, recomputed)
                holds = is_known and abs(stored - recomputed) <= rounding
                line = f"{stored:g}" if holds else f"{stored}, recomputed {recomputed}"
                print(f"{'holds' if holds else 'DIFFERS'}: {name} {line}", flush=True)
                wrong, total = wrong + (not holds), total + 1
        except UsageError as error:
            raise UsageError(str(error).replace(folder, str(path))) from error
        except (*MALFORMED, OSError) as error:
            reason = in_one_line(error).replace(folder, str(path))
            raise UsageError(f"{path} is no archive of --bundle: {reason}") from error
    print(f"{path}: {total - wrong} of {total} values hold")
    return 1 if wrong or not total else 0


def _checks(path: Path, folder: Path) -> Iterator[Check]:
    """Yield the values of an archive that can be recomputed from its outputs."""
    content = read_object(folder / TABLE)
    rows: list[TableRow] = content["rows"]
    recomputed, kept = [], []
    skipped: dict[str, None] = {}  # in order
    for number, row in enumerate(rows):
        require_form(row, path)
        entry, scores = folder / "rows" / str(number), dict(row["scores"])
        folders = [result.parent for _, result in files_of(entry, "result.json")]
        settings = [read_object(run / "result.json")["settings"] for run in folders]
        is_generated = any("generate" in each for each in settings)
        runs = list(map(_recompute, folders, settings, repeat(folder)))
        for metric, stored in row["scores"].items():
            measured = [run.get(metric) for run in runs]
            has_outputs = is_generated and not metric.startswith(LAYER)
            has_outputs |= metric in row.get("intervals", {})
            known = [score for score in measured if score is not None]
            if len(known) == len(measured) == len(stored):  # Welch's test compares what is stored
                pairs = zip(stored, known, strict=True)
                scores[metric] = [n if abs(s - n) > _rounding(metric, s) else s for s, n in pairs]
            names = [run.name for run in folders]
            for name, before, now in zip_longest(names, stored, measured):
                if name and now is None and not has_outputs:
                    skipped[f"{row['row']} {metric}"] = None
                    continue
                label = f"{row['row']}, {name or 'more runs'}: {metric}"
                yield label, before, now, _rounding(metric, before or 0)
        for form, before in row.get("forms of the last seed", {}).items():
            label = f"{row['row']}, {folders[-1].name}: BLEU {form}"
            yield label, before, runs[-1].get(form), _rounding("bleu")
        old = {key: value for key, value in row.items() if key not in ("intervals", "compared")}
        recomputed.append({**old, "scores": scores})
        kept.append(read_kept(run_folders(entry)))
    for title in dict.fromkeys(row["table"] for row in rows):
        numbers = [number for number, row in enumerate(rows) if row["table"] == title]
        members = [recomputed[number] for number in numbers]
        add_comparisons(members, [kept[number] for number in numbers], content["baseline"])
    for row, new in zip(rows, recomputed, strict=True):
        yield from _intervals(row["row"], row.get("intervals", {}), new.get("intervals", {}))
        old, now = (table_row.get("compared", {}) for table_row in (row, new))
        keys = ("with", "sentences", "runs", "folds") if old else ()
        same = all(old.get(key) == now.get(key) for key in keys)
        both = [old.get("metrics", {}), now.get("metrics", {}) if same else {}]
        for metric, name in product(sorted({*both[0], *both[1]}), TESTED):
            before, after = (tests.get(metric, {}).get(name) for tests in both)
            if before is not None or after is not None:
                rounding = _rounding(metric) if name == TESTED[0] else P_ROUNDING
                yield f"{row['row']}: {metric}, {name}", before, after, rounding
        intervals = [{name: test.get("interval") for name, test in side.items()} for side in both]
        yield from _intervals(f"{row['row']}, difference", *intervals)
    if skipped:
        print(f"not recomputed, since the archive has no outputs of them: {', '.join(skipped)}")


def _intervals(label: str, stored: Intervals, recomputed: Intervals) -> Iterator[Check]:
    """Yield the ends of the 95% intervals by metric."""
    for metric in sorted({*stored, *recomputed}):
        ends = zip_longest(stored.get(metric) or [], recomputed.get(metric) or [])
        for number, (before, now) in enumerate(ends, start=1):
            yield f"{label}: {metric}, interval's end {number}", before, now, _rounding(metric)


def _rounding(metric: str, score: float = 0) -> float:
    return max(0.6 * 0.1 ** digits_of(metric), 0.6e-5 * abs(score))  # logs have six digits


def _recompute(run: Path, settings: Mapping[str, Any], folder: Path) -> Mapping[str, float]:
    """Return the scores of a run's outputs, and write their sentence statistics beside them."""
    scoring = str(settings.get("score", ""))
    if scoring and not SCORING.fullmatch(scoring):
        raise UsageError(f"{run.name}: its scoring {scoring[:80]!r} is refused: it may read files")
    has_statistics = (run / STATISTICS).exists()
    texts = sorted((folder / "text").glob("test.*"))
    if "lead" in settings:
        source, target = texts
        command = score_lead(scoring, int(settings["lead"]), source, target)
    elif (run / OUTPUT).exists():
        subwords = value_of(str(settings["generate"]).split(), "--remove-bpe")
        references = texts[-1] if texts else None
        sources = texts[0] if texts[1:] and "--by-length" in scoring else None
        command = score_generated(scoring, run, subwords, references, sources)
    elif (run / RANKING).exists():
        command = [*SCORE_RANKING, "--scores", str(run / RANKING)]
    elif (run / PREDICTIONS).exists():
        kept = read_predictions([run / PREDICTIONS])
        groups = {name: Group(metric_of(name), [scores]) for name, scores in kept.metrics.items()}
        return {name: group.mean for name, group in groups.items()}
    else:
        return {}
    scored = capture(command)
    if scored.returncode:
        reason = scored.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"{run.name} cannot be scored: {reason}")
    numbers = json.loads(scored.stdout)
    if not has_statistics:  # runs of older versions, which were compared without
        (run / STATISTICS).unlink(missing_ok=True)
    if (run / RANKING).exists():
        return {name: round(100 * numbers[name], 4) for name in METRICS}
    forms = numbers.get("forms", {}).items()
    return scores_in(numbers) | {name: form["bleu"] for name, form in forms}
