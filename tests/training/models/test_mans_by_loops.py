"""The released DMAN models, of translation and summarization, against loops in float64.

The reference computes attention one pair of positions at a time, from the paper and what is known
of the released code. It shares only the names of parameters. Tensors are ``[B, T, C]``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from reference import Draws, gradients
from torch.nn import functional as F

PAD = 1
MASK_FLOOR = 1e-10
HEADS, LAYERS = 2, 2
# Probabilities differ, so that no dropout can take another's place.
DROPOUT, ATTENTION_DROPOUT, ACTIVATION_DROPOUT = 0.1, 0.2, 0.3


@dataclass(frozen=True)
class Released:
    """Differences between the models.

    Attributes:
        activation: of the concatenated heads and of feed-forward sublayers.
        heads_dropout: of the concatenated heads, after the activation.
        norm_first: layer norms precede the sublayers; otherwise they follow the sums.
        learned_positions: positions are learned, with a layer norm of the embeddings.
    """

    activation: Callable
    heads_dropout: float
    norm_first: bool
    learned_positions: bool
    flags: tuple[str, ...]


MODELS = {
    "dman_wmt_en_de": Released(
        F.relu, 0.0, True, False, ("--heads-activation=relu", "--start=mans")
    ),
    "dman_summarization": Released(
        *(F.gelu, 0.4, False, True),
        ("--heads-activation=gelu", "--start=bert", "--heads-dropout=0.4"),
    ),
}


class Loops:
    """The forward pass of the reference.

    Args:
        drawn: dropout masks of the tested model in order, see ``reference.Draws``; None in
            evaluation.
    """

    def __init__(self, parameters, released, drawn):
        self.parameters, self.released, self.drawn = parameters, released, drawn

    def dropout(self, x, p, time_first=True):
        if self.drawn is None or p == 0:
            return x
        drawn_p, factors = self.drawn.pop(0)
        factors = factors.transpose(0, 1) if time_first else factors
        assert (drawn_p, factors.shape) == (p, x.shape)
        return x * factors

    def linear(self, name, x, rows=slice(None)):
        weight, bias = (self.parameters[f"{name}.{kind}"][rows] for kind in ("weight", "bias"))
        return x @ weight.T + bias

    def norm(self, name, x):
        parameters = (self.parameters[f"{name}.{kind}"] for kind in ("weight", "bias"))
        return F.layer_norm(x, x.shape[-1:], *parameters)

    def log_mask(self, name, x, head, distance):
        """Return ``log sigmoid(h_t W + P_{t-s} + U_i)`` (eq. 12); P is 0 at distance 0."""
        position = 0.0
        if distance:
            table = self.parameters[f"{name}.{'past' if distance > 0 else 'future'}_bias"]
            position = table[min(abs(distance), len(table)) - 1]
        content = (x * self.parameters[f"{name}.query_weight"][:, 0]).sum()
        logit = content + position + self.parameters[f"{name}.head_bias"][head]
        return torch.log(torch.clamp(1 / (1 + torch.exp(-logit)), min=MASK_FLOOR))

    def project(self, name, x, memory):
        """Return queries, keys and values."""
        C = x.size(-1)
        first, second, third = (slice(k * C, (k + 1) * C) for k in range(3))
        if f"{name}.qkv_proj.weight" in self.parameters:
            return [self.linear(f"{name}.qkv_proj", x, rows) for rows in (first, second, third)]
        keys_values = [self.linear(f"{name}.kv_proj", memory, rows) for rows in (first, second)]
        return [self.linear(f"{name}.query_proj", x), *keys_values]

    def attention(self, name, x, memory, blocked):
        """Return multi-head attention, DMAN's if there are its parameters.

        Args:
            blocked: ``blocked(b, i, j)``: query i of sentence b must not attend to key j.
        """
        (B, T, C), S, D = x.shape, memory.size(1), x.size(2) // HEADS
        q, k, v = (part.view(B, -1, HEADS, D) for part in self.project(name, x, memory))
        mechanism = f"{name}.mechanism"
        is_dman = f"{mechanism}.past_bias" in self.parameters
        rows = []
        for b in range(B):
            for h in range(HEADS):
                for i in range(T):
                    exponentials = [torch.zeros(()).double()] * S
                    for j in range(S):
                        if not blocked(b, i, j):
                            score = (q[b, i, h] * k[b, j, h]).sum() / math.sqrt(D)
                            if is_dman:
                                score = score + self.log_mask(mechanism, x[b, i], h, i - j)
                            exponentials[j] = torch.exp(score)
                    rows.append(torch.stack(exponentials) / sum(exponentials))
        weights = torch.stack(rows).view(B, HEADS, T, S)
        weights = self.dropout(weights, ATTENTION_DROPOUT, time_first=False)
        heads = torch.einsum("bhts,bshd->bthd", weights, v).reshape(B, T, C)
        heads = self.dropout(self.released.activation(heads), self.released.heads_dropout)
        return self.linear(f"{name}.out_proj", heads)

    def feed_forward(self, name, x):
        inner = self.released.activation(self.linear(f"{name}.fc1", x))
        return self.linear(f"{name}.fc2", self.dropout(inner, ACTIVATION_DROPOUT))

    def residual(self, name, x, sublayer):
        norm = f"{name}.layer_norm"
        output = sublayer(f"{name}.sublayer", self.norm(norm, x) if self.released.norm_first else x)
        x = x + self.dropout(output, DROPOUT)
        return x if self.released.norm_first else self.norm(norm, x)

    def embed(self, side, tokens):
        """Return scaled embeddings plus positions, counted from after the padding."""
        table = self.parameters["encoder.embed_tokens.weight"]  # shared by encoder and decoder
        C = table.size(1)
        place = PAD + tokens.ne(PAD).cumsum(1) * tokens.ne(PAD)
        if self.released.learned_positions:
            positions = self.parameters[f"{side}.embed_positions.weight"][place]
        else:
            positions = torch.stack([sinusoid(p, C) for p in place.flatten().tolist()])
        x = math.sqrt(C) * table[tokens] + positions.view(*tokens.shape, C)
        if self.released.learned_positions:
            x = self.norm(f"{side}.layernorm_embedding", x)
        return self.dropout(x, DROPOUT, time_first=False)

    def coder(self, side, x, attentions):
        for layer in range(LAYERS):
            for number, (memory, blocked) in enumerate(attentions):

                def attend(name, x, memory=memory, blocked=blocked):
                    return self.attention(name, x, x if memory is None else memory, blocked)

                x = self.residual(f"{side}.layers.{layer}.sublayers.{number}", x, attend)
            feed_forward = f"{side}.layers.{layer}.sublayers.{len(attentions)}"
            x = self.residual(feed_forward, x, self.feed_forward)
        return self.norm(f"{side}.layer_norm", x) if self.released.norm_first else x

    def logits(self, source, target):
        padded = source.eq(PAD)
        x = self.embed("encoder", source) * ~padded.unsqueeze(-1)
        sees_tokens = None, lambda b, i, j: padded[b, j]
        memory = self.coder("encoder", x, [sees_tokens] * 2)
        sees_past = None, lambda b, i, j: j > i
        sees_source = memory, lambda b, i, j: padded[b, j]
        x = self.embed("decoder", target)
        hidden = self.coder("decoder", x, [sees_past, sees_past, sees_source])
        return hidden @ self.parameters["encoder.embed_tokens.weight"].T


def sinusoid(place, features):
    """Return positions of Vaswani et al. (2017), sines before cosines; zero for padding."""
    half = features // 2
    angles = [place / 10000 ** (k / (half - 1)) for k in range(half)]
    waves = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
    return torch.tensor(waves, dtype=torch.float64) * (place != PAD)


FLAGS = [
    *("--share-all-embeddings", "--attention-impl=reference", "--dman-max-distance=2"),
    f"--dropout={DROPOUT}",
    f"--attention-dropout={ATTENTION_DROPOUT}",
    f"--activation-dropout={ACTIVATION_DROPOUT}",
]
for side in ("encoder", "decoder"):
    FLAGS += [f"--{side}-embed-dim=8", f"--{side}-ffn-embed-dim=12", f"--{side}-layers={LAYERS}"]
    FLAGS += [f"--{side}-attention-heads={HEADS}"]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("arch", MODELS)
def test_logits_and_gradients_equal_the_loops(build_model, monkeypatch, arch, training):
    torch.manual_seed(5)  # the float32 below errs by more in some models of a thousand
    model = build_model(arch, *FLAGS, *MODELS[arch].flags, tiny=False, words=11)
    model.double().train(training)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    drawn = Draws(monkeypatch).taken if training else None
    source = torch.tensor([[PAD, PAD, 5, 9, 2], [4, 7, 7, 6, 2]])  # padded as by fairseq
    target = torch.tensor([[2, 8, 4, 5], [2, 6, PAD, PAD]])
    logits, _ = model(source, source.ne(PAD).sum(1), target)
    parameters = dict(model.named_parameters())
    expected = Loops(parameters, MODELS[arch], drawn).logits(source, target)
    assert not drawn
    # fairseq computes sinusoids, and GELU in feed-forward sublayers, in float32.
    tolerance = {"rtol": 2e-5, "atol": 1e-5}
    logits, expected = (output[target.ne(PAD)] for output in (logits, expected))
    torch.testing.assert_close(logits, expected, **tolerance)
    tensors = list(parameters.values())
    for name, ours, theirs in zip(
        parameters, gradients(logits, tensors), gradients(expected, tensors), strict=True
    ):
        assert theirs.any(), name
        torch.testing.assert_close(ours, theirs, **tolerance, msg=lambda m, n=name: f"{n}: {m}")
