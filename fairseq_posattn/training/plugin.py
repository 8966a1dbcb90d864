"""Registration of the plugin with fairseq."""


def register() -> None:
    """Mend fairseq and register the plugin's models, tasks and criterions; twice does no harm.

    ``--user-dir`` does this. A program that imports fairseq by itself calls it first, or imports
    :mod:`fairseq_posattn` after fairseq.

    Raises:
        ImportError: fairseq is not installed, or PyTorch is older than it may be.
    """
    from fairseq_posattn import errors, mends
    from fairseq_posattn.mistakes.explanations import explain

    mends.apply()
    errors.install_hook(explain)
    from fairseq_posattn import criterions, models, tasks  # noqa: F401, these register
