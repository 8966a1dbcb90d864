"""The stage that makes a dictionary of words, and of vectors for them where they are asked for."""

from fairseq_posattn.preparation.vectors import find_vectors, write_vocabulary


def asked_vectors(options, downloads):
    """The vectors of ``--glove``, as :func:`.text.glove.find_vectors` gives them; None for none."""
    return find_vectors(options.glove, downloads, options.glove_dim) if options.glove else None


def run_words(stages, options, vectors, min_count, count):
    """Make ``dict.txt`` and, if there are vectors, ``glove.txt``.

    Args:
        stages: a :class:`.pipeline.stages.Stages`.
        vectors: as :func:`asked_vectors` gives them.
        min_count: how often a word without a vector must occur in training, unless an option says.
        count: called when the stage is due, returns counts of the words of training and of others.
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
