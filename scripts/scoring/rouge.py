"""ROUGE-1, ROUGE-2 and ROUGE-L, F1, as files2rouge computes them.

https://github.com/pltrdy/files2rouge hands a line per summary to ROUGE-1.5.5.pl (Lin, 2004) with
``-c 95 -r 1000 -n 2 -a``: words are not stemmed, and ROUGE-L is on the level of summaries, a union
of longest common subsequences over sentences, which end at " . ". In rouge-score these are rouge1,
rouge2 and rougeLsum.

Measured against ROUGE-1.5.5.pl on the same files, with the first three sentences of 250 articles of
CNN/DailyMail and the first eight words of 1,000 of Gigaword as summaries: every summary's F1 is the
same in all five digits that ROUGE-1.5.5 prints. The averages differ by up to 0.0001 (of 1): ours is
the mean, ROUGE-1.5.5's is the mean of 1,000 random resamples, which moves by as much when the files
are named differently. Scores by pyrouge's own options are of stemmed words (``-m``): 41.6, 18.7 and
37.7 instead of 39.7, 18.1 and 36.3 for those articles of CNN/DailyMail.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.pipeline.parallel import map_lines

METRICS = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeLsum"}  # ours: rouge-score's
AVERAGE = re.compile(r"ROUGE-([12L]) Average_F: ([\d.]+)")
WORD = re.compile(r"[A-Za-z0-9]+")


class Tokenizer:
    """ROUGE-1.5.5's words. rouge-score's own lower-case the "İ" of "İstanbul" to an "i", too."""

    def tokenize(self, text):
        return [word.lower() for word in WORD.findall(text)]


def sentences(summary, eos="."):
    """The sentences of a summary, which end at ``eos`` between spaces, as in files2rouge."""
    return [part.strip() for part in f" {summary} ".split(f" {eos} ") if part.strip()]


def rouge(pairs, eos=".", jobs=1):
    """F1 in percent, the means over all summaries.

    Args:
        pairs: a :class:`scoring.pairs.Pairs`.
        eos: what ends a sentence within a line.
        jobs: processes.

    Returns:
        ``{"rouge1": ..., "rouge2": ..., "rougeL": ...}``
    """
    from rouge_score.rouge_scorer import RougeScorer  # only here: --help does not wait for it

    scorer = RougeScorer(list(METRICS.values()), tokenizer=Tokenizer())
    totals = dict.fromkeys(METRICS, 0.0)
    together = zip(pairs.hypotheses, pairs.references, strict=True)
    score = partial(_score, scorer, eos)
    for scores in map_lines(score, together, jobs, "scoring", len(pairs.hypotheses), chunk=100):
        for name, f1 in scores.items():
            totals[name] += f1
    return {name: 100 * total / len(pairs.hypotheses) for name, total in totals.items()}


def _score(scorer, eos, pair):
    hypothesis, reference = ("\n".join(sentences(text, eos)) for text in pair)
    scores = scorer.score(reference, hypothesis)
    return {ours: scores[theirs].fmeasure for ours, theirs in METRICS.items()}


def rouge_by_files2rouge(pairs, eos="."):
    """The same by the real files2rouge, which must be installed and set up.

    Raises:
        UsageError: it is not, or fails.
    """
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = shutil.which("files2rouge", path=folders)
    if command is None:
        raise UsageError(
            "there is no command files2rouge: https://github.com/pltrdy/files2rouge says how to "
            "install it; --implementation rouge-score needs neither it nor Perl"
        )
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("hypotheses", "references")]
        for path, lines in zip(paths, (pairs.hypotheses, pairs.references), strict=True):
            # It wraps sentences in HTML, where ROUGE ends them at a "<"; a space is as good to it.
            text = "".join(line.replace("<", " ") + "\n" for line in lines)
            path.write_text(text, encoding="utf-8")
        run = subprocess.run(
            [command, *map(str, paths), "--eos", eos],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    found = {f"rouge{name}": 100 * float(f1) for name, f1 in AVERAGE.findall(run.stdout)}
    if run.returncode or found.keys() != METRICS.keys():
        raise UsageError(f"files2rouge failed: {run.stdout.strip().rpartition(chr(10))[2]}")
    return found
