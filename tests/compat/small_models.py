"""Small models of fairseq's, which read their source."""

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask

SMALL = ("layers=1", "embed-dim=8", "ffn-embed-dim=8", "attention-heads=2")


def build(kind, arch, *flags):
    """Return a model and its dictionary."""
    dictionary = Dictionary()
    for word in "abcdefgh":
        dictionary.add_symbol(word)
    parser = options.get_training_parser("translation")
    sizes = [f"--{side}-{flag}" for side in ("encoder", "decoder") for flag in SMALL]
    args = options.parse_args_and_arch(parser, ["data", "--arch", arch, *sizes, *flags])
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(0)
    model = kind.build_model(cfg.model, TranslationTask(cfg.task, dictionary, dictionary))
    for weight in model.parameters():
        weight.data *= 3
    return model.eval(), dictionary
