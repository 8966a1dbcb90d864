"""``--attention-impl`` in models of several mechanisms."""

from dataclasses import replace

import pytest

from fairseq_posattn.attention.declare import IMPLEMENTATIONS
from fairseq_posattn.model.mechanisms import MECHANISMS, LayerDescription
from fairseq_posattn.training.flags import MechanismConfig

LAYER = LayerDescription(("san", "ffn"), embed_dim=32, num_heads=2, ffn_dim=32, max_positions=16)
PAST_ONLY = ("cope", "forget")
CANNOT = {("da", "sdpa"), ("mtsa", "sdpa")}  # with the default of another flag


@pytest.mark.parametrize("named", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_without_the_implementation_chooses_its_own(name, named):
    layer = replace(LAYER, causal=name in PAST_ONLY)
    if (name, named) in CANNOT:  # before training, not at its first batch
        with pytest.raises(ValueError, match=r"impl='sdpa' cannot do .*; choose one of: auto"):
            MECHANISMS[name](MechanismConfig(attention_impl=named), layer)
        return
    mechanism = MECHANISMS[name](MechanismConfig(attention_impl=named), layer)
    has_kernels = name in ("dman", "da", "mtsa", "alibi", "t5", "kerple")
    has = {"reference": True, "sdpa": name not in ("rpr", "cope"), "triton": has_kernels}[named]
    assert mechanism.impl == (named if has else "auto")
