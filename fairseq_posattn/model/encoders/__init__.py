"""What makes vectors of words aware of each other, by the name that ``--encoder`` takes.

An encoder is a module that maps ``[B, T, C]``, padded on the right if at all, and a padding mask,
bool ``[B, T]``, to ``[B, T, output_dim]``. To add one: a file here with its module and a function
``build`` that makes it from the flags, for an input of ``dim`` features; a line in ``ENCODERS``.
"""

from argparse import Namespace

from fairseq_posattn.model.encoders import (
    attention,
    bi_blosan,
    bigru,
    bilstm,
    cnn,
    cspan,
    disan,
    hierarchical_cnn,
    lstm,
    mpsan,
    mtsa,
    none,
    transformer,
)

ENCODERS = {
    "none": none.build,
    "transformer": transformer.build,
    "attention": attention.build,
    "mpsan": mpsan.build,
    "cspan": cspan.build,
    "mtsa": mtsa.build,
    "disan": disan.build,
    "bi_blosan": bi_blosan.build,
    "lstm": lstm.build,
    "bilstm": bilstm.build,
    "bigru": bigru.build,
    "cnn": cnn.build,
    "hierarchical_cnn": hierarchical_cnn.build,
}

# Those that drop features of their input themselves, before each map apart, or have no map.
DROP_BEFORE_MAPS = {"none", "attention", "mpsan", "mtsa", "disan", "bi_blosan"}


def input_dropout_of(cfg: Namespace) -> float:
    """The probability with which a model drops a feature of what its encoder is given."""
    by_itself = str(cfg.dropout_places) == "maps" and str(cfg.encoder) in DROP_BEFORE_MAPS
    return 0.0 if by_itself else float(cfg.dropout)
