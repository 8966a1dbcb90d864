"""Look into a trained model: where its attention goes, and what its distances have come to mean.

``posattn analysis {locality,heatmap,parameters,cost} --help`` tells how. A figure
is made in two steps, by two functions of one file: the numbers, as plain lists and dictionaries
that ``--json`` writes as they are, and a drawing of nothing but these.
"""

from fairseq_posattn.training.plugin import register

register()  # before the first import of fairseq, which it quiets
