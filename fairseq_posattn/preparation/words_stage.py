"""The stage that makes a dictionary of words and, on request, their vectors."""

from fairseq_posattn.preparation.vectors import find_vectors, write_vocabulary


def asked_vectors(options, downloads):
    """Return the vectors of ``--glove`` from :func:`.vectors.find_vectors`, or None."""
    return find_vectors(options.glove, downloads, options.glove_dim) if options.glove else None


def run_words(stages, options, vectors, min_count, count):
    """Make ``dict.txt`` and, if there are vectors, ``glove.txt``.

    Args:
        stages: a :class:`.stages.Stages`.
        vectors: result of :func:`asked_vectors`.
        min_count: default of ``--min-count``, for words without a vector.
        count: returns counts of the words of training and of other splits.
    """

    def make(work):
        least = options.min_count or min_count
        write_vocabulary(work, *count(), vectors, least, options.seed)

    stages.run(
        "vocabulary",
        ["dict.txt", "glove.txt"] if vectors else ["dict.txt"],
        make,
        vectors=[vectors[0].fingerprint(vectors[1]), vectors[1]] if vectors else None,
        seed=options.seed,
        min_count=options.min_count,
    )
