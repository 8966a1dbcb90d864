"""Folder of a generation model for CTranslate2, whose attention is ``san`` or ``rpr``."""

import shutil
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.specs import common_spec, transformer_spec
from torch import Tensor, nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export.checkpoint import Exported
from fairseq_posattn.hugging_face.configuration import nested
from fairseq_posattn.model.transformer_layer import CROSS, FEED_FORWARD, split_sublayers

NAME = "ctranslate2"  # within the exported folder
TOLERANCE = 1e-4
SUBLAYERS = {"encoder": [FEED_FORWARD], "decoder": [CROSS, FEED_FORWARD]}  # after self attention
MECHANISMS = ("san", "rpr")
ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_fast": common_spec.Activation.GELUTanh,
    "gelu_accurate": common_spec.Activation.GELUTanh,
    "swish": common_spec.Activation.SWISH,
    "tanh": common_spec.Activation.Tanh,
}


def write(exported: Exported, folder: Path) -> float:
    """Write ``ctranslate2/``; return the largest difference of log-probabilities."""
    model: Any = exported.model
    tokenizer = exported.tokenizer
    if problems := list_problems(model.config.options):
        raise UsageError(f"--ctranslate2: it has no {', '.join(problems)}; leave the flag out")
    sides = {"encoder": model.encoder, "decoder": model.decoder}
    spec = transformer_spec.TransformerSpec(*(_side(model.config, *side) for side in sides.items()))
    for register, numbers in (
        (spec.register_source_vocabulary, tokenizer.numbers),
        (spec.register_target_vocabulary, tokenizer.written),
    ):
        register(["<blank>" if token == "<pad>" else token for token in numbers])
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    part = folder / f".{NAME}"
    try:
        part.mkdir()
        spec.save(str(part))
        difference = _difference(exported, part)
        part.rename(folder / NAME)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return difference


def list_problems(options: dict[str, Any]) -> list[str]:
    """Return what CTranslate2 lacks of a model with these options, as users type it."""
    problems = []
    for side, others in SUBLAYERS.items():
        sublayers = options[f"{side}_sublayers"]
        first, *rest = split_sublayers(sublayers)
        if first not in MECHANISMS or rest != others:
            problems.append(f"--{side}-sublayers {sublayers}")
    if options["activation_fn"] not in ACTIVATIONS:
        problems.append(f"--activation-fn {options['activation_fn']}")
    if options["heads_activation"] in ("relu", "gelu"):
        problems.append(f"--heads-activation {options['heads_activation']}")
    if options["rpr_per_head"] and any("rpr" in options[f"{side}_sublayers"] for side in SUBLAYERS):
        problems.append("--rpr-per-head")
    return problems


def _side(config: Any, name: str, module: Any) -> Any:
    """Return the specification of an encoder or decoder with its weights."""
    options = nested(config.options)
    side = getattr(options, name)
    is_encoder = name == "encoder"
    kind = getattr(transformer_spec, f"Transformer{name.title()}Spec")
    spec = kind(
        side.layers,
        side.attention_heads,
        pre_norm=side.normalize_before,
        no_final_norm=module.layer_norm is None,
        activation=ACTIVATIONS[options.activation_fn],
        layernorm_embedding=module.layernorm_embedding is not None,
        relative_position="rpr" in side.sublayers,
    )
    embeddings = spec.embeddings[0] if is_encoder else spec.embeddings
    embeddings.weight = _array(module.embed_tokens.weight)
    spec.scale_embeddings = module.embed_scale
    if hasattr(spec, "position_encodings"):
        longest = options.max_source_positions if is_encoder else options.max_target_positions
        spec.position_encodings.encodings = _array(_positions(module, longest))
    for norm in ("layer_norm", "layernorm_embedding"):
        if getattr(module, norm) is not None:
            _normalize(getattr(spec, norm), getattr(module, norm))
    if not is_encoder:
        weight = module.output_projection.weight
        if module.project_out_dim is not None:
            weight = weight @ module.project_out_dim.weight
        spec.projection.weight = _array(weight)
    for layer_spec, layer in zip(spec.layer, module.layers, strict=True):
        attention, *cross, feed_forward = layer.sublayers
        _attend(layer_spec.self_attention, attention, "qkv_proj")
        for sublayer in cross:
            _attend(layer_spec.attention, sublayer, "query_proj", "kv_proj")
        _normalize(layer_spec.ffn.layer_norm, feed_forward.layer_norm)
        _multiply(layer_spec.ffn.linear_0, feed_forward.sublayer.fc1)
        _multiply(layer_spec.ffn.linear_1, feed_forward.sublayer.fc2)
    return spec


def _positions(module: Any, longest: int) -> Any:
    """Return the embeddings of the first positions, ``[longest, C]``; zero for a model without."""
    if module.embed_positions is None:
        return torch.zeros(longest, module.embed_tokens.embedding_dim)
    return module.embed_positions(torch.full((1, longest), module.padding_idx + 1))[0]


def _attend(spec: Any, residual: Any, *projections: str) -> None:
    attention = residual.sublayer
    _normalize(spec.layer_norm, residual.layer_norm)
    for linear, name in zip(spec.linear, (*projections, "out_proj"), strict=True):
        _multiply(linear, getattr(attention, name))
    if hasattr(spec, "relative_position_keys"):
        spec.relative_position_keys = _array(attention.mechanism.key_embedding[0])
        spec.relative_position_values = _array(attention.mechanism.value_embedding[0])


def _normalize(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _multiply(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


@torch.inference_mode()
def _difference(exported: Exported, folder: Path) -> float:
    """Return the largest difference of tokens' log-probabilities, on generated lines."""
    model, tokenizer = exported.model, exported.tokenizer
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    generator, largest = torch.Generator().manual_seed(1), torch.zeros(())
    longest = min(model.config.options[f"max_{side}_positions"] for side in ("source", "target"))
    for length in {min(length, longest - 1) for length in (1, 4, 40)}:
        lines = []
        for numbers in (tokenizer.numbers, tokenizer.written):
            tokens = list(numbers)[4:] or list(numbers)[3:]  # behind special symbols
            chosen = torch.randint(len(tokens), (length,), generator=generator)
            lines.append([tokens[number] for number in chosen.tolist()])
        (scored,) = translator.score_batch([lines[0]], [lines[1]])
        eos = tokenizer.eos_token_id
        source = torch.tensor([[*(tokenizer.numbers[token] for token in lines[0]), eos]])
        target = torch.tensor([[*(tokenizer.written[token] for token in lines[1]), eos]])
        logits = model(source, decoder_input_ids=target.roll(1)).logits[0]
        expected = logits.log_softmax(-1).gather(1, target[0, :, None])[:, 0]
        log_probs = torch.tensor(scored.log_probs)
        largest = largest.maximum((log_probs - expected[: len(log_probs)]).abs().max())
    if not largest <= TOLERANCE * max(1.0, expected.abs().max().item()):  # nor NaN
        differ = f"log-probabilities differ from the model's by up to {largest:.2g}"
        raise UsageError(f"--ctranslate2: {differ}; leave the flag out")
    return largest.item()
