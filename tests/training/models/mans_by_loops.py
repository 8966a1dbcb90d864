"""Mask Attention Networks from the papers and what is known of the published code, in loops.

The models of ``dman_wmt_en_de`` and ``dman_summarization`` for the code to equal: attention a pair
of positions at a time, everything of the package's left alone but the names of the parameters.
Tensors are ``[B, T, C]``.
"""

import math
from dataclasses import dataclass

import torch

PAD = 1
MASK_FLOOR = 1e-10


def relu(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


def gelu(x):
    """``x`` times the probability that a standard normal number is less (Hendrycks & Gimpel)."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


@dataclass(frozen=True)
class Published:
    """What differs between the two: translation, and summarization.

    Attributes:
        activation: of the joined heads and within feed-forward sublayers.
        norm_first: whether the layer norms come before the sublayers, or after the sums.
        learned_positions: and then a layer norm of the embeddings.
        heads_dropout: of the joined heads, after the activation.
    """

    activation: object
    norm_first: bool
    learned_positions: bool
    heads_dropout: float
    dropout: float
    attention_dropout: float
    activation_dropout: float
    heads: int


class Loops:
    """A pass through a model.

    Args:
        parameters: of the model, by name.
        settings: a :class:`Published`.
        drawn: what dropout drew in the code, as ``reference.Draws`` took it, for the same draws
            again; None out of training.
    """

    def __init__(self, parameters, settings, drawn):
        self.parameters, self.settings, self.drawn = parameters, settings, drawn

    def dropout(self, x, p):
        if self.drawn is None or p == 0:
            return x
        known, factors = self.drawn.pop(0)
        assert (known, factors.shape) == (p, x.shape)
        return x * factors

    def dropout_time_first(self, x, p):
        """Of ``[B, T, C]``, where the code has ``[T, B, C]``."""
        return self.dropout(x.transpose(0, 1), p).transpose(0, 1)

    def affine(self, name, x, rows=slice(None)):
        weight, bias = (self.parameters[f"{name}.{kind}"][rows] for kind in ("weight", "bias"))
        return (x.unsqueeze(-2) * weight).sum(-1) + bias

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
        return scaled * self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]

    def log_mask(self, name, x, b, h, distance):
        """``log sigmoid(h_t W + P_{t-s} + U_i)`` (eq. 12), P being 0 at the distance 0."""
        past = self.parameters[f"{name}.past_bias"]
        future = self.parameters.get(f"{name}.future_bias")
        place = 0.0
        if distance > 0:
            place = past[min(distance, len(past)) - 1]
        elif distance < 0:
            place = future[min(-distance, len(future)) - 1]
        content = (x * self.parameters[f"{name}.query_weight"][:, 0]).sum()
        mask = 1 / (1 + torch.exp(-(content + place + self.parameters[f"{name}.head_bias"][h])))
        return torch.log(torch.clamp(mask, min=MASK_FLOOR))

    def attention(self, name, x, memory, blocked):
        """Multi-head attention of ``x`` to ``memory``; it is DMAN where it has DMAN's parameters.

        Args:
            blocked: ``blocked(b, i, j)``, whether query i may not see key j.
        """
        batch, queries, features = x.shape
        width, keys = features // self.settings.heads, memory.size(1)
        q, k, v = self.projections(name, x, memory, features)
        mechanism = f"{name}.mechanism"
        weights = {}
        for b in range(batch):
            for h in range(self.settings.heads):
                head = slice(h * width, (h + 1) * width)
                for i in range(queries):
                    exponentials = {}
                    for j in range(keys):
                        if blocked(b, i, j):
                            continue
                        score = (q[b, i, head] * k[b, j, head]).sum() / math.sqrt(width)
                        if f"{mechanism}.past_bias" in self.parameters:
                            score = score + self.log_mask(mechanism, x[b, i], b, h, i - j)
                        exponentials[j] = torch.exp(score)
                    total = sum(exponentials.values())
                    for j in range(keys):
                        weights[b, h, i, j] = exponentials.get(j, 0 * total) / total
        shape = (batch, self.settings.heads, queries, keys)
        weights = torch.stack(list(weights.values())).view(shape)
        weights = self.dropout(weights, self.settings.attention_dropout)
        joined = torch.stack(
            [
                torch.cat(
                    [
                        sum(
                            weights[b, h, i, j] * v[b, j, h * width : (h + 1) * width]
                            for j in range(keys)
                        )
                        for h in range(self.settings.heads)
                    ]
                )
                for b in range(batch)
                for i in range(queries)
            ]
        ).view(x.shape)
        joined = self.dropout_time_first(
            self.settings.activation(joined), self.settings.heads_dropout
        )
        return self.affine(f"{name}.out_proj", joined)

    def projections(self, name, x, memory, features):
        first, second = slice(features), slice(features, 2 * features)
        if f"{name}.qkv_proj.weight" in self.parameters:
            rows = first, second, slice(2 * features, None)
            return (self.affine(f"{name}.qkv_proj", x, part) for part in rows)
        keys_and_values = (self.affine(f"{name}.kv_proj", memory, part) for part in (first, second))
        return self.affine(f"{name}.query_proj", x), *keys_and_values

    def feed_forward(self, name, x):
        inner = self.settings.activation(self.affine(f"{name}.fc1", x))
        inner = self.dropout_time_first(inner, self.settings.activation_dropout)
        return self.affine(f"{name}.fc2", inner)

    def residual(self, name, x, sublayer):
        norm = f"{name}.layer_norm"
        output = sublayer(f"{name}.sublayer", self.norm(norm, x) if self.settings.norm_first else x)
        x = x + self.dropout_time_first(output, self.settings.dropout)
        return x if self.settings.norm_first else self.norm(norm, x)

    def embed(self, side, tokens):
        """Words times the root of their width, and positions counted from after the padding."""
        words = self.parameters["encoder.embed_tokens.weight"]  # shared by all
        features = words.size(1)
        rows = []
        for sentence in tokens.tolist():
            place = PAD
            for token in sentence:
                place = place + (token != PAD)
                position = self.position(side, place if token != PAD else None, words)
                rows.append(math.sqrt(features) * words[token] + position)
        x = torch.stack(rows).view(*tokens.shape, features)
        if self.settings.learned_positions:
            x = self.norm(f"{side}.layernorm_embedding", x)
        return self.dropout(x, self.settings.dropout)

    def position(self, side, place, words):
        if self.settings.learned_positions:
            return self.parameters[f"{side}.embed_positions.weight"][
                PAD if place is None else place
            ]
        return sinusoid(place, words.size(1)).to(words)

    def encode(self, tokens, layers):
        padded = tokens.eq(PAD)
        x = self.embed("encoder", tokens) * ~padded.unsqueeze(-1)
        for number in range(layers):
            name = f"encoder.layers.{number}.sublayers"
            x = self.residual(f"{name}.0", x, self.seeing(lambda b, i, j: padded[b, j]))
            x = self.residual(f"{name}.1", x, self.seeing(lambda b, i, j: padded[b, j]))
            x = self.residual(f"{name}.2", x, self.feed_forward)
        return self.norm("encoder.layer_norm", x) if self.settings.norm_first else x

    def decode(self, tokens, memory, padded, layers):
        x = self.embed("decoder", tokens)
        for number in range(layers):
            name = f"decoder.layers.{number}.sublayers"
            x = self.residual(f"{name}.0", x, self.seeing(lambda b, i, j: j > i))
            x = self.residual(f"{name}.1", x, self.seeing(lambda b, i, j: j > i))
            x = self.residual(f"{name}.2", x, self.seeing(lambda b, i, j: padded[b, j], memory))
            x = self.residual(f"{name}.3", x, self.feed_forward)
        return self.norm("decoder.layer_norm", x) if self.settings.norm_first else x

    def seeing(self, blocked, memory=None):
        """Attention for :meth:`residual`, of a sequence to itself or to ``memory``."""

        def sublayer(name, x):
            return self.attention(name, x, x if memory is None else memory, blocked)

        return sublayer

    def logits(self, source, target, layers):
        """``[B, T, words]``."""
        memory = self.encode(source, layers)
        hidden = self.decode(target, memory, source.eq(PAD), layers)
        words = self.parameters["encoder.embed_tokens.weight"]
        return (hidden.unsqueeze(-2) * words).sum(-1)


def sinusoid(place, features):
    """Of Vaswani et al. (2017), sines before cosines, as tensor2tensor and fairseq have them."""
    if place is None:
        return torch.zeros(features, dtype=torch.float64)
    half = features // 2
    angles = [place / 10000 ** (k / (half - 1)) for k in range(half)]
    waves = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
    return torch.tensor(waves, dtype=torch.float64)
