"""Score of one pair of positions by each paper's equation, and loops over them in float64.

A score is ``score(a, b, h, i, j, distance)``: ``a`` the arguments by name, ``b`` the sentence,
``h`` the head, ``i`` and ``j`` the indices of query and key, ``distance`` that of their positions.
It is a number, or one for each feature.
"""

import itertools
import math

import torch
import torch.nn.functional as F
from reference import PADDING, assert_same_with_gradients, leaves

from fairseq_posattn.attention.cases import CASES
from fairseq_posattn.attention.masks import DistanceMask

# Cases and the implementations that serve their arguments.
SERVED = [
    (name, impl)
    for name, case in CASES.items()
    for impl in case.attention.implementations
    if (name, impl) not in (("mtsa", "sdpa"), ("da", "sdpa"))
]


def dot(a, b, h, i, j, distance=None):
    return a["query"][b, h, i] @ a["key"][b, h, j] / math.sqrt(a["query"].size(-1))


def dman(a, b, h, i, j, distance):
    reach = len(a["distance_bias"]) // 2
    bias = a["distance_bias"][max(-reach, min(reach, distance)) + reach]
    mask = torch.sigmoid(a["query_bias"][b, i] + bias + a["head_bias"][h])
    return dot(a, b, h, i, j) + torch.log(mask.clamp(min=1e-10))


def da(a, b, h, i, j, distance):
    raw, adjustment = dot(a, b, h, i, j), a.get("adjustment", "early_multiply")
    if adjustment.startswith("late"):
        return raw
    f = coefficient(a, h, distance)
    return raw + f if adjustment == "early_add" else raw.clamp(min=0) * f


def coefficient(a, h, distance):
    """Return f of DA's section 4.3."""
    w, v = a["distance_weight"][h], a["sigmoid_shift"][h]
    x = w * abs(distance)
    return {
        "clip": lambda: x.clamp(max=a["clip_threshold"]),
        "linear": lambda: x + v,
        "exponential": lambda: x.exp(),
        "sigmoid": lambda: 1 / (1 + (-x).exp()),
        "learnable_sigmoid": lambda: (1 + v.exp()) / (1 + (v - x).exp()),
    }[a.get("mapping", "learnable_sigmoid")]()


def adjust_late(name, a, h, distance, weight):
    """Return a weight after the late adjustments of DA's section 4.4."""
    adjustment = a.get("adjustment", "") if name == "da" else ""
    if adjustment == "late_add":
        return weight + coefficient(a, h, distance)
    return weight * coefficient(a, h, distance) if adjustment == "late_multiply" else weight


def scale(a, name, default, score):
    log_sigmoid = a.get(name, default) == "log_sigmoid"
    return torch.log(torch.sigmoid(score)) if log_sigmoid else score


def mtsa(a, b, h, i, j, distance):
    pair = scale(a, "token_scale", "log_sigmoid", dot(a, b, h, i, j))
    return pair + scale(a, "source_scale", "identity", a["source_scores"][b, h, j])


def mpsan(a, b, h, i, j, distance):
    return F.elu((a["key_score"][b, h, j] + a["query_score"][b, h, i]) / a.get("constant", 5))


def rpr(a, b, h, i, j, distance):
    edge = a["key"][b, h, j] + a["key_embedding"][h, label(a, distance)]
    return a["query"][b, h, i] @ edge / math.sqrt(edge.size(-1))


def label(a, distance):
    reach = a["key_embedding"].size(-2) // 2
    return max(-reach, min(reach, -distance)) + reach


def gaussian(a, b, h, i, j, distance):
    seen = a["seen"][b]  # positions of the sentence without padding
    central = len(seen) * torch.sigmoid(a["center_logit"][b, h, i])
    deviation = len(seen) * torch.sigmoid(a["window_logit"][b, h, i]) / 2
    return dot(a, b, h, i, j) - (seen.index(j) + 1 - central) ** 2 / (2 * deviation**2)


def transformer_xl(a, b, h, i, j, distance):
    relative = a["relative_key"][h, distance + a["query"].size(2) - 1]
    query, key = a["query"][b, h, i], a["key"][b, h, j]
    terms = query @ key + query @ relative
    terms = terms + a["content_bias"][h] @ key + a["position_bias"][h] @ relative
    return terms / math.sqrt(len(query))


def tener(a, b, h, i, j, distance):
    query, key = a["query"][b, h, i], a["key"][b, h, j]
    d = len(query)
    waves = [
        (math.cos if n % 2 else math.sin)(distance / 1e4 ** ((n - n % 2) / d)) for n in range(d)
    ]
    relative = torch.tensor(waves, dtype=torch.float64)
    content, position = a["content_bias"][h], a["position_bias"][h]
    return query @ key + query @ relative + content @ key + position @ relative


def disan(a, b, h, i, j, distance):
    c = a.get("constant", 5)
    return c * torch.tanh((a["key_score"][b, j] + a["query_score"][b, i]) / c)


def rotated(vector, position):
    """Return RoPE's vector at a position: complex numbers times powers of i."""
    features = len(vector) // 2 * 2
    angles = position * 1e4 ** -(torch.arange(0, features, 2).double() / features)
    pairs = torch.complex(vector[:features:2], vector[1:features:2]) * torch.exp(1j * angles)
    return torch.cat([torch.view_as_real(pairs).flatten(), vector[features:]])


def rope(a, b, h, i, j, distance):
    query = rotated(a["query"][b, h, i], 7 + distance)  # only differences count
    return query @ rotated(a["key"][b, h, j], 7) / math.sqrt(len(query))


def alibi(a, b, h, i, j, distance):
    slope = 2 ** (-8 * (h + 1) / a["query"].size(1))
    return dot(a, b, h, i, j) - slope * abs(distance)


def t5(a, b, h, i, j, distance):
    number, first = len(a["bucket_bias"]), 0
    if not a["causal"]:
        number //= 2
        first = number if distance < 0 else 0
    exact, distance = number // 2, abs(distance)
    if distance >= exact:
        growth = math.log(distance / exact) / math.log(a["max_distance"] / exact)
        distance = min(exact + int(growth * (number - exact) + 1e-9), number - 1)
    return dot(a, b, h, i, j) + a["bucket_bias"][first + distance, h]


def kerple(a, b, h, i, j, distance):
    weight, rate = a["log_weight"][h].exp(), a["log_rate"][h].exp()
    return dot(a, b, h, i, j) - weight * torch.log(1 + rate * abs(distance))


def fire(a, b, h, i, j, distance):
    first, last = a["seen"][b][0], a["seen"][b][-1]
    position = j + distance
    furthest = position - first if a["causal"] else max(position - first, last - position)
    furthest, c = max(furthest, 0), a["scale"].abs()
    longest = torch.maximum(torch.tensor(furthest).double(), a["threshold"].abs())
    share = torch.log(c * abs(distance) + 1) / (torch.log(c * longest + 1) + 1e-6)
    hidden = F.relu(a["hidden_weight"] * share + a["hidden_bias"])
    return dot(a, b, h, i, j) + a["output_weight"][h] @ hidden + a["output_bias"][h]


def cope(a, b, h, i, j, distance):
    between = [k for k in a["seen"][b] if j <= k <= j + distance]
    position = sum(torch.sigmoid(dot(a, b, h, i, k)) for k in between)
    position = torch.as_tensor(position).clamp(max=len(a["position_embedding"]) - 1)
    low = math.floor(position.detach())
    e, share = a["position_embedding"], position - low
    embedding = (1 - share) * e[low] + share * e[min(low + 1, len(e) - 1)]
    query = a["query"][b, h, i]
    return dot(a, b, h, i, j) + query @ embedding / math.sqrt(len(query))


def forget(a, b, h, i, j, distance):
    return dot(a, b, h, i, j) + a["log_gate"][b, h, j + 1 : j + distance + 1].sum()


PAST_ONLY = ("cope", "forget")
NAMED = dman, da, mtsa, mpsan, rpr, gaussian, transformer_xl, tener, disan, rope, alibi, t5, kerple
SCORES = {score.__name__: score for score in (*NAMED, fire, cope, forget)}
SCORES |= {"san": dot, "masked": dot, "sman": dot, "mtsa_identity": mtsa}


def mask_at(mask, b, h, i, j):
    """Return the entry of a mask of any broadcastable shape for a pair of positions."""
    if mask is None:
        return 0.0
    mask = mask.matrix(torch.float64) if isinstance(mask, DistanceMask) else mask
    mask = mask[(None,) * (4 - mask.dim())]
    return mask[b % mask.size(0), h % mask.size(1), i, j]


def loops(name, arguments, padding, causal=False):
    """Return the context under padding ``[B, Tk]``, one pair of positions after another."""
    keys = [[j for j, padded in enumerate(row) if not padded] for row in padding.tolist()]
    causal = causal or name in PAST_ONLY
    a = {**arguments, "seen": keys, "causal": causal}
    value, headless = a["value"], a["value"].dim() == 3
    queries = a["query"].size(2) if "query" in a else a["query_score"].size(1 if headless else 2)
    heads = 1 if headless else value.size(1)
    context = []
    for b, h, i in itertools.product(range(value.size(0)), range(heads), range(queries)):
        values = value[b] if headless else value[b, h]
        terms = []
        for j in keys[b]:
            distance = i + len(values) - queries - j
            penalty = mask_at(a.get("mask"), b, h, i, j)
            blocked = (causal and distance < 0) or abs(distance) > a.get("radius", math.inf)
            if penalty != -math.inf and not blocked:
                weight = torch.exp(SCORES[name](a, b, h, i, j, distance) + penalty)
                seen = values[j]
                if name == "rpr":
                    seen = seen + a["value_embedding"][h, label(a, distance)]
                terms.append((distance, weight, seen))
        total, row = sum(weight for _, weight, _ in terms), torch.zeros_like(values[0])
        for distance, weight, seen in terms:
            row = row + adjust_late(name, a, h, distance, weight / total) * seen
        context.append(row)
    shape = (value.size(0), *(() if headless else (heads,)), queries, value.size(-1))
    return torch.stack(context).view(shape)


def tensors_of(arguments):
    return [t for t in arguments.values() if torch.is_tensor(t) and t.requires_grad]


def assert_module_equals_loops(name, module, learned, causal=False):
    """Compare a module of three heads with three features each, in float64.

    Args:
        learned: takes the queries; returns the other arguments that the module passes.
    """
    vectors = leaves(*[(4, 3, 5, 3)] * 3)
    arguments = dict(zip(("query", "key", "value"), vectors, strict=True)) | learned(vectors[0])
    output = module(None, *vectors, key_padding_mask=PADDING)
    expected = loops(name, arguments, PADDING, causal)
    assert_same_with_gradients(output, expected, [*vectors, *module.parameters()])
