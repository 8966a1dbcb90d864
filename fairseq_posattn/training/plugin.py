"""Registration of the plugin with fairseq."""


def register() -> None:
    """Mend fairseq and register the plugin's models, tasks and criterions; twice does no harm.

    ``--user-dir`` does this. A program that imports fairseq by itself calls it first, or imports
    :mod:`fairseq_posattn` after fairseq.

    Raises:
        ImportError: fairseq is not installed, or PyTorch is older than it may be.
    """
    from fairseq_posattn import compat
    from fairseq_posattn.common import errors
    from fairseq_posattn.compat.explanations import explain

    compat.apply()
    errors.install_hook(explain)
    from fairseq_posattn.training import (
        criterions,  # noqa: F401, these register
        models,  # noqa: F401, these register
        tasks,  # noqa: F401, these register
    )
