import pytest
import torch
from oracles import assert_module_equals_loops, loops
from reference import PADDING, LargestTensor, assert_same_with_gradients, leaves

from fairseq_posattn.attention.rpr import (
    RelativePositionAttention,
    relative_position_attention,
)


def inputs(
    batch=4, heads=3, queries=5, keys=5, features=3, clip=2, per_head=False, dtype=torch.float64
):
    """query, key, value, key_embedding, value_embedding."""
    table = (2 * clip + 1, features)
    table = (heads, *table) if per_head else table
    shapes = (
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        table,
        table,
    )
    return leaves(*shapes, dtype=dtype)


def of_heads(key_embedding, value_embedding, heads=3):
    """The tables as the equation takes them: each head has its own, which may be the same."""
    return {
        "key_embedding": key_embedding.expand(heads, -1, -1),
        "value_embedding": value_embedding.expand(heads, -1, -1),
    }


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "clip", "per_head"), [(1, 2, False), (3, 1, True), (3, 0, False), (2, 9, True)]
)
def test_equals_the_equation(heads, clip, per_head, causal):
    tensors = inputs(heads=heads, clip=clip, per_head=per_head)
    output = relative_position_attention(*tensors, key_padding_mask=PADDING, causal=causal)
    names = ("query", "key", "value")
    arguments = dict(zip(names, tensors, strict=False)) | of_heads(*tensors[3:], heads)
    assert_same_with_gradients(output, loops("rpr", arguments, PADDING, causal), tensors)


def test_a_key_embedding_can_point_at_the_token_before():
    nothing = torch.zeros(1, 1, 4, 1)
    value = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 4, 1)
    before = torch.tensor([[100.0], [0.0], [0.0]])  # s - t = -1, 0, 1
    context = relative_position_attention(nothing + 1, nothing, value, before, before * 0)
    # The first token has none before it, and looks at all alike. The third and the fourth token are
    # pointed at every earlier one: distances beyond k share the embedding of k.
    torch.testing.assert_close(context.flatten(), torch.tensor([2.5, 1.0, 1.5, 2.0]))


def test_a_value_embedding_tells_where_a_query_looked():
    nothing = torch.zeros(1, 1, 3, 1)
    where = torch.tensor([[-1.0], [0.0], [1.0]])  # s - t = -1, 0, 1
    context = relative_position_attention(nothing, nothing, nothing, where * 0, where)
    torch.testing.assert_close(context.flatten(), torch.tensor([2 / 3, 0.0, -2 / 3]))


def test_dropout_drops_a_key_and_its_position_together():
    """Values and value embeddings cancel, so what is left of any choice of weights is zero."""
    torch.manual_seed(0)
    query, key, value, table, _ = inputs(batch=1, clip=0)
    value = torch.ones_like(value)
    opposite = -torch.ones_like(table)
    output = relative_position_attention(query, key, value, table, opposite, dropout_p=0.5)
    torch.testing.assert_close(output, torch.zeros_like(output))


def test_no_tensor_has_a_query_a_key_and_a_feature_dimension():
    tensors = inputs(batch=2, heads=2, queries=12, keys=12, features=8, clip=3)
    with LargestTensor() as largest:
        relative_position_attention(*tensors, causal=True).sum().backward()
    assert largest.elements <= 2 * 2 * 12 * 24


def test_tables_must_have_a_middle_and_the_same_length():
    query, key, value, key_embedding, value_embedding = inputs()
    with pytest.raises(ValueError, match="key_embedding has 4 entries; it needs 2k.1, distance 0"):
        relative_position_attention(query, key, value, key_embedding[1:], value_embedding)
    with pytest.raises(
        ValueError, match=r"value_embedding has shape \[3, 3\]; expected \[2k.1, D\]"
    ):
        relative_position_attention(query, key, value, key_embedding, value_embedding[1:-1])


@pytest.mark.parametrize("per_head", [False, True])
def test_module_gives_the_equation_its_learned_parameters(per_head):
    torch.manual_seed(0)
    module = RelativePositionAttention(9, 3, max_distance=2, per_head=per_head, causal=True)
    module = module.double()
    learned = of_heads(module.key_embedding, module.value_embedding)
    assert_module_equals_loops("rpr", module, lambda query: learned, causal=True)
    assert sum(p.numel() for p in module.parameters()) == 2 * 5 * 3 * (3 if per_head else 1)
