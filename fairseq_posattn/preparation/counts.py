"""Numbers of examples per split, beside the published ones."""

from fairseq_posattn.common.progress import say


def report_counts(counts, published, limit=None, what="lines"):
    """Print a table, and a warning for each split that differs from the published number.

    Args:
        counts: ``{split: number}``.
        published: the same for splits of known size; rounded ones are text and not compared.
        limit: ``--limit`` of a quick look, for which no count is compared.
        what: what is counted.
    """
    width = max(map(len, ["split", *counts]))
    print(f"{'split':<{width}} {what:>12} {'published':>12}")
    for split, count in counts.items():
        known = published.get(split, "-")
        known = known if isinstance(known, str) else f"{known:,}"
        print(f"{split:<{width}} {count:>12,} {known:>12}")
    if limit is not None:
        print(f"(a quick look: --limit {limit})")
        return
    for split, count in counts.items():
        if published.get(split, count) != count and not isinstance(published[split], str):
            say(
                f"warning: {split} has {count:,} {what}, not the {published[split]:,} published: "
                "scores cannot stand beside published ones"
            )


def count_lines(path):
    """Return the number of lines of a file."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)
