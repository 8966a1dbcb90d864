"""What the process imports from which commands are forked: fairseq, Hydra as after a use of it."""

import warnings
from argparse import Namespace

import fairseq_cli.generate
import fairseq_cli.train  # noqa: F401
import torch._dynamo  # noqa: F401
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    convert_namespace_to_omegaconf(Namespace())
