"""Weights that are no numbers: fairseq translates and classifies with them as if they were.

A training that has diverged leaves such weights in its checkpoint, and what is made with them looks
like an answer. Complex numbers, integers and booleans, PyTorch casts without a word.
"""

from fairseq import checkpoint_utils
from fairseq.models import BaseFairseqModel

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around


@around(checkpoint_utils, "load_model_ensemble_and_task")
def _only_numbers(load, filenames, *args, **kwargs):
    models, cfg, task = load(filenames, *args, **kwargs)
    for filename, model in zip(filenames, models, strict=True):
        for name, weight in model.named_parameters():
            if not weight.isfinite().all():
                raise UsageError(
                    f"{filename}: the weight {name} is not finite (NaN or infinite): its "
                    "training has diverged; use an earlier checkpoint"
                )
    return models, cfg, task


@around(BaseFairseqModel, "load_state_dict")
def _only_floating_point(load_state_dict, self, state_dict, *args, **kwargs):
    for name, weight in self.state_dict().items():
        saved = state_dict.get(name, weight)
        if weight.is_floating_point() and not saved.is_floating_point():
            kind = str(saved.dtype).removeprefix("torch.")
            raise UsageError(
                f"the weight {name} is of type {kind}, not floating-point; use another checkpoint"
            )
    return load_state_dict(self, state_dict, *args, **kwargs)
