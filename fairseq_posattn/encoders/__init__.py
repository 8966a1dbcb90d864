"""What makes vectors of words aware of each other, by the name that ``--encoder`` takes.

An encoder is a module that maps ``[B, T, C]``, padded on the right if at all, and a padding mask,
bool ``[B, T]``, to ``[B, T, output_dim]``. To add one: a file here with its module and a function
``build`` that makes it from the flags, for an input of ``dim`` features; a line in ``ENCODERS``.
"""

from fairseq_posattn.encoders import (
    attention,
    bilstm,
    cnn,
    cspan,
    disan,
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
    "bilstm": bilstm.build,
    "cnn": cnn.build,
}
