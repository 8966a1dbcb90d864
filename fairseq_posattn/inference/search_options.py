"""The beam search's options, as ``fairseq-generate`` has them, for command lines."""

from fairseq_posattn.common.cli import positive

# Defaults, by the names of fairseq's GenerationConfig; and the attention in --json.
DECODING = {
    **{"beam": 5, "lenpen": 1.0, "max_len_b": 200, "no_repeat_ngram_size": 0},
    "attention": "words",
}
SEARCH = {
    "--beam": (positive, "beam size"),
    "--lenpen": (float, "length penalty: above 1 favors longer outputs, below 1 shorter ones"),
    "--max-len-a": (float, "maximum output length is A x source length + B subwords: this is A"),
    "--max-len-b": (int, "maximum output length is A x source length + B subwords: this is B"),
    "--min-len": (positive, "minimum output length in subwords"),
    "--no-repeat-ngram-size": (int, "forbid repeated n-grams of N subwords; 0 allows them"),
}


def add_search(group, decoding, flags=SEARCH):
    """Add options of the search to a parser's group.

    Args:
        decoding: defaults, by the names of fairseq's GenerationConfig.
        flags: which of SEARCH.
    """
    for flag in flags:
        kind, about = SEARCH[flag]
        name = flag[2:].replace("-", "_")
        default = decoding.get(name, {"max_len_a": 0, "min_len": 1}.get(name))
        if flag == "--max-len-b" and "--max-len-a" not in flags:
            about = "maximum output length in subwords"
        group.add_argument(
            flag, type=kind, default=default, metavar="N", help=f"{about} (default: {default})"
        )


def search_settings(args):
    """Return the fields of fairseq's GenerationConfig that a command line sets."""
    names = [flag[2:].replace("-", "_") for flag in SEARCH]
    settings = {name: getattr(args, name) for name in [*names, "nbest", "constraints"]}
    return settings | {"prefix_size": args.prefix_size or 0}
