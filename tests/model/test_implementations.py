"""``--attention-impl`` in models of several mechanisms."""

from dataclasses import replace

import pytest

from fairseq_posattn.attention.cases import CASES
from fairseq_posattn.attention.declare import IMPLEMENTATIONS, declaration_of
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
    has = named in declaration_of(mechanism.function).implementations
    assert mechanism.impl == (named if has else "auto")


@pytest.mark.parametrize(
    ("implementation", "names"),
    [
        ("triton", "dman da mtsa alibi t5 kerple"),
        ("sdpa", "san dman sman da mtsa gaussian transformer_xl tener rope alibi t5 kerple fire"),
        ("sdpa", "forget past future masked"),
    ],
)
def test_no_mechanism_loses_an_implementation(implementation, names):
    for name in names.split():
        assert implementation in declaration_of(MECHANISMS[name].mechanism.function).implementations


def test_the_contract_suite_tests_every_mechanism():
    tested = {case.function for case in CASES.values()}
    assert {name for name, b in MECHANISMS.items() if b.mechanism.function not in tested} == set()
