"""The released DMAN models, of translation and summarization, against a reference in float64.

The reference follows the paper and what is known of the released code, and shares only the names of
parameters. Tensors are ``[B, T, C]``. Attention by loops is in ``tests/attention/oracles.py``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from reference import Draws, assert_same_model, gradients
from torch.nn import functional as F

PAD = 1
MASK_FLOOR = 1e-10
HEADS, LAYERS = 2, 2
# Probabilities differ, so that exchanged dropouts are detected.
DROPOUT, ATTENTION_DROPOUT, ACTIVATION_DROPOUT = 0.1, 0.2, 0.3


@dataclass(frozen=True)
class Released:
    """Differences between the models.

    Attributes:
        activation: of the concatenated heads and of feed-forward sublayers.
        heads_dropout: of the concatenated heads, after the activation.
        norm_first: layer norms precede the sublayers; otherwise they follow the sums, positions are
            learned and embeddings have a layer norm.
    """

    activation: Callable
    heads_dropout: float
    norm_first: bool
    flags: str


MODELS = {
    "dman_wmt_en_de": Released(F.relu, 0.0, True, "--heads-activation=relu --start=mans"),
    "dman_summarization": Released(
        *(F.gelu, 0.4, False, "--heads-activation=gelu --start=bert --heads-dropout=0.4")
    ),
}


class Loops:
    """The forward pass; ``drawn`` are the model's dropouts in order, see ``reference.Draws``."""

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

    def log_mask(self, name, x):
        """Return ``log sigmoid(h_t W + P_{t-s} + U_i)`` (eq. 12), [B, H, T, T]; P_0 is 0."""

        def position(distance):
            table = self.parameters.get(f"{name}.{'past' if distance > 0 else 'future'}_bias")
            if table is None or distance == 0:  # decoders have no future
                return torch.zeros(()).double()
            return table[min(abs(distance), len(table)) - 1]

        T = x.size(1)
        positions = torch.stack([position(i - j) for i in range(T) for j in range(T)]).view(T, T)
        content = (x @ self.parameters[f"{name}.query_weight"])[:, None]  # [B, 1, T, 1]
        logit = content + positions + self.parameters[f"{name}.head_bias"][:, None, None]
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
        """Return multi-head attention, of DMAN if it has parameters; ``blocked`` is [B, T, S]."""
        (B, T, C), D = x.shape, x.size(2) // HEADS
        projected = self.project(name, x, memory)
        q, k, v = (part.view(B, -1, HEADS, D).transpose(1, 2) for part in projected)
        scores = q @ k.mT / math.sqrt(D)  # [B, H, T, S]
        if f"{name}.mechanism.past_bias" in self.parameters:
            scores = scores + self.log_mask(f"{name}.mechanism", x)
        exponentials = torch.exp(scores) * ~blocked[:, None]
        weights = exponentials / exponentials.sum(-1, keepdim=True)
        weights = self.dropout(weights, ATTENTION_DROPOUT, time_first=False)
        heads = (weights @ v).transpose(1, 2).reshape(B, T, C)
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
        index = PAD + tokens.ne(PAD).cumsum(1) * tokens.ne(PAD)
        if not self.released.norm_first:
            positions = self.parameters[f"{side}.embed_positions.weight"][index]
        else:
            positions = torch.stack([sinusoid(p, C) for p in index.flatten().tolist()])
        x = math.sqrt(C) * table[tokens] + positions.view(*tokens.shape, C)
        if not self.released.norm_first:
            x = self.norm(f"{side}.layernorm_embedding", x)
        return self.dropout(x, DROPOUT, time_first=False)

    def coder(self, side, x, attentions):
        for layer in range(LAYERS):
            prefix = f"{side}.layers.{layer}.sublayers"
            for number, (memory, blocked) in enumerate(attentions):

                def attend(name, x, memory=memory, blocked=blocked):
                    return self.attention(name, x, x if memory is None else memory, blocked)

                x = self.residual(f"{prefix}.{number}", x, attend)
            x = self.residual(f"{prefix}.{len(attentions)}", x, self.feed_forward)
        return self.norm(f"{side}.layer_norm", x) if self.released.norm_first else x

    def logits(self, source, target):
        padded, T = source.eq(PAD), target.size(1)
        x = self.embed("encoder", source) * ~padded.unsqueeze(-1)
        memory = self.coder("encoder", x, [(None, padded[:, None])] * 2)
        sees_past = None, torch.ones(T, T, dtype=torch.bool).triu(1)[None]
        x = self.embed("decoder", target)
        hidden = self.coder("decoder", x, [sees_past, sees_past, (memory, padded[:, None])])
        return hidden @ self.parameters["encoder.embed_tokens.weight"].T


def sinusoid(position, features):
    """Return positions of Vaswani et al. (2017), sines before cosines; zero for padding."""
    half = features // 2
    angles = [position / 10000 ** (k / (half - 1)) for k in range(half)]
    waves = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
    return torch.tensor(waves, dtype=torch.float64) * (position != PAD)


FLAGS = (
    "--share-all-embeddings --attention-impl=reference --dman-max-distance=2 "
    f"--dropout={DROPOUT} --attention-dropout={ATTENTION_DROPOUT} "
    f"--activation-dropout={ACTIVATION_DROPOUT}"
).split()
for side in ("encoder", "decoder"):
    FLAGS += [f"--{side}-embed-dim=8", f"--{side}-ffn-embed-dim=12", f"--{side}-layers={LAYERS}"]
    FLAGS += [f"--{side}-attention-heads={HEADS}"]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("arch", MODELS)
def test_logits_and_gradients_equal_the_loops(build_model, monkeypatch, arch, training):
    torch.manual_seed(5)  # the float32 below errs by more in some models of a thousand
    model = build_model(arch, *FLAGS, *MODELS[arch].flags.split(), tiny=False, words=11)
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
    assert_same_model(logits, expected, parameters, **tolerance)
    assert all(gradient.any() for gradient in gradients(expected, [*parameters.values()]))
