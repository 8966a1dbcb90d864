"""Masks are computed once for all layers, and again for each batch."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

PAD = 1
TOKENS = torch.tensor([[4, 5, 6, 2], [7, 2, PAD, PAD]])


class MadeSafe(TorchDispatchMode):
    """Count of masks that are made safe for empty rows."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket is torch.ops.aten.bitwise_and
        return function(*args, **(kwargs or {}))


def build(build_model, layers, impl):
    sublayers = ["--encoder-sublayers=san,ffn", "--decoder-sublayers=san,cross,ffn"]
    sizes = [f"--{side}-layers={layers}" for side in ("encoder", "decoder")]
    model = build_model("posattn_transformer", *sublayers, *sizes, f"--attention-impl={impl}")
    return model.eval()


def scores(model, tokens):
    return model(src_tokens=tokens, src_lengths=None, prev_output_tokens=tokens)[0]


@pytest.mark.parametrize("impl", ["auto", "reference"])
def test_the_number_of_masks_does_not_depend_on_the_layers(build_model, impl):
    counts = set()
    for layers in (1, 3):
        with MadeSafe() as made:
            scores(build(build_model, layers, impl), TOKENS)
        counts.add(made.count)
    assert counts == {3}  # encoder, decoder and cross attention


@pytest.mark.parametrize("impl", ["auto", "reference"])
def test_masks_are_computed_again_for_a_batch_in_the_same_memory(build_model, impl):
    model, tokens = build(build_model, 2, impl), TOKENS.clone()
    scores(model, tokens)
    tokens[1] = torch.tensor([7, 8, 2, PAD])
    torch.testing.assert_close(scores(model, tokens)[1, :3], scores(model, tokens[1:, :3])[0])
