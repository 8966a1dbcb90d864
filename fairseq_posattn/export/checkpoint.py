"""Export of a checkpoint to a folder that ``transformers`` loads.

export("checkpoints/sst5/checkpoint_best.pt", "sst5")
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizer

from fairseq_posattn import hugging_face as hf
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import unfinished_folder
from fairseq_posattn.compat.checks import config_of_model
from fairseq_posattn.export import card
from fairseq_posattn.inference.options import DECODING, EXPORTED
from fairseq_posattn.inference.prediction import Predictor
from fairseq_posattn.inference.trained_model import TrainedModel, load
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import codes_file
from fairseq_posattn.training.models import classifier
from fairseq_posattn.training.models.registration import all_options
from fairseq_posattn.training.models.seq2seq import PosAttnTransformer, PosAttnTransformerConfig

__all__ = ["Exported", "export"]

TOLERANCE = 1e-4
LOCAL_PATHS = ("encoder_embed_path", "decoder_embed_path")  # on the machine of the training
UNREAD = ("encoder.version", "decoder.version")  # buffers of fairseq that no model of ours reads


class Exported(NamedTuple):
    """An exported folder as ``transformers`` loads it; ``difference`` of scores is the largest."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizer
    difference: float


class Parts(NamedTuple):
    """A folder's contents, and scores of lines and second sentences or targets by both models."""

    kind: type[PreTrainedModel]
    config: hf.PosAttnTextConfig | hf.PosAttnSeq2SeqConfig
    state: dict[str, Tensor]
    tokenizer: Callable[..., PreTrainedTokenizer]
    scores: Callable[[Tensor, Tensor], Tensor]
    exported_scores: Callable[[PreTrainedModel, Tensor, Tensor], Tensor]
    generation: GenerationConfig | None = None


def export(checkpoint: str, folder: str, data: str | None = None, **decoding: float) -> Exported:
    """Write a new or empty folder of weights, configuration, tokenizer and model card.

    ``data`` has the dictionaries; by default the checkpoint's folder, else that of training.
    ``decoding`` are defaults of ``generate`` with fairseq's names and meaning, such as ``beam``.
    """
    if unknown := sorted(decoding.keys() - set(EXPORTED)):
        fix = f"choose from: {', '.join(EXPORTED)}"
        raise UsageError(f"{unknown[0]}: generate() has no such default; {fix}")
    target = Path(folder).absolute()  # "." has no name
    _require_empty(target, folder)
    trained = load(str(checkpoint), data)
    if isinstance(trained.model, PosAttnTransformer):
        collect: Callable[[TrainedModel], Parts] = partial(_seq2seq, decoding=decoding)
    elif isinstance(trained.model, classifier.PosAttnClassifier):
        collect = _classifier
    else:
        why = trained.unread and f": {trained.unread}"
        problem = f"{checkpoint}: a {type(trained.model).__name__} cannot be exported{why}"
        fix = "for int8 of a model of --task translation use 'posattn translate --int8'"
        raise UsageError(f"{problem}; {fix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with unfinished_folder(target) as unfinished:
            part = unfinished / target.name
            part.mkdir()
            exported = _write(trained, collect(trained), part)
            mode = (part / "vocab.json").stat().st_mode
            _require_empty(target, folder)  # another export may have ended meanwhile
            target.mkdir(exist_ok=True)
            # A shell may be in the target. config.json is last: without it no folder is loaded.
            for file in sorted(part.iterdir(), key=lambda file: file.name == "config.json"):
                file.chmod(mode)  # some are readable by the owner alone
                shutil.move(file, target / file.name)  # it may be on another disk
            return exported
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{folder} cannot be written: {reason}") from error


def _require_empty(target: Path, folder: str) -> None:
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise UsageError(f"{folder}: exists and is not empty; name another folder")


def _write(trained: TrainedModel, parts: Parts, folder: Path) -> Exported:
    task = trained.task
    dictionaries = {"vocab": task.source_dictionary}
    if parts.config.is_encoder_decoder and task.target_dictionary != task.source_dictionary:
        dictionaries["target_vocab"] = task.target_dictionary
    for name, dictionary in dictionaries.items():
        numbers = {symbol: number for number, symbol in enumerate(dictionary.symbols)}
        text = json.dumps(numbers, ensure_ascii=False, indent=0)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    rules = trained.rules
    if rules is not None and (parts.config.is_encoder_decoder or rules.subwords):
        manifest.write(folder, rules)
        if codes := codes_file(trained.data, rules):
            shutil.copyfile(codes, folder / codes.name)
    files = {f"{name}_file": str(folder / f"{name}.json") for name in dictionaries}
    tokenizer = parts.tokenizer(**files)
    model = parts.kind(parts.config)
    model.load_state_dict(parts.state)
    if parts.generation is not None:
        model.generation_config = parts.generation
    model.save_pretrained(folder)
    loaded = parts.kind.from_pretrained(folder).eval()
    stored, buffers = model.state_dict().keys(), dict(loaded.named_buffers())
    for name, buffer in model.named_buffers():
        if name not in stored and not torch.equal(buffer, buffers[name]):
            problem = f"{trained.path}: the buffer {name} is not saved with the weights"
            raise UsageError(f"{problem}; register it with persistent=True")
    difference = _difference(trained, parts, loaded)
    tokenizer.save_pretrained(folder)
    card.write(folder, trained, loaded.config, tokenizer, rules)
    return Exported(loaded, tokenizer, difference)


def _classifier(trained: TrainedModel) -> Parts:
    model, task = trained.model, trained.task
    if model.encoder.language_model is not None:
        raise UsageError(f"{trained.path}: a model with --language-model cannot be exported")
    predictor = Predictor(trained, str, torch.device("cpu"))
    marks = classifier.find_marks(model.cfg, task.source_dictionary)
    config = hf.PosAttnTextConfig(
        options=_plain(model.cfg, classifier.PosAttnClassifierConfig),
        vocab_size=model.encoder.embed_tokens.num_embeddings,
        pad_token_id=marks.pad,
        eos_token_id=marks.eos,
        separator_id=marks.separator,
        sentence_end_ids=list(marks.ends),
        encodes_pairs=model.encodes_pairs,
        predicts_numbers=bool(getattr(task.cfg, "regression_target", False)),
        id2label=dict(enumerate(predictor.names)),
        label2id={name: number for number, name in enumerate(predictor.names)},
    )
    name, state = task.cfg.classification_head_name, model.state_dict().items()
    apart = predictor.encodes_pairs
    before = (None, None) if apart else (task.cfg.init_token, task.cfg.separator_token)
    rules: dict[str, Any] = {"words": predictor.rule_of_text(), "lower": predictor.lower}
    rules |= {"apart": apart, "before": before}

    def scores(lines: Tensor, others: Tensor) -> Any:
        pairs = others if model.encodes_pairs else None
        return model(lines, classification_head_name=name, pair_tokens=pairs)[0]

    def exported_scores(exported: PreTrainedModel, lines: Tensor, others: Tensor) -> Any:
        if not model.encodes_pairs:
            return exported(lines).logits
        types = torch.cat([torch.zeros_like(lines), torch.ones_like(others)], 1)
        return exported(torch.cat([lines, others], 1), token_type_ids=types).logits

    return Parts(
        hf.PosAttnForSequenceClassification,
        config,
        {key.replace(f"classification_heads.{name}.", "head."): value for key, value in state},
        partial(hf.PosAttnClassifierTokenizer, **rules, model_max_length=task.cfg.max_positions),
        scores,
        exported_scores,
    )


def _seq2seq(trained: TrainedModel, decoding: dict[str, float]) -> Parts:
    model, task = trained.model, trained.task
    if not trained.translates:
        raise trained.refusal("cannot be exported, as models of --task translation can")
    settings = all_options(trained.config, PosAttnTransformerConfig)
    options = _plain(settings, PosAttnTransformerConfig)
    if options["adaptive_softmax_cutoff"]:
        raise UsageError(f"{trained.path}: --adaptive-softmax-cutoff cannot be exported")
    words, targets = model.encoder.embed_tokens, model.decoder.embed_tokens
    options["share_all_embeddings"] = targets is words
    is_tied = model.decoder.output_projection.weight is targets.weight
    options["share_decoder_input_output_embed"] = is_tied
    source = task.source_dictionary
    config = hf.PosAttnSeq2SeqConfig(
        options=options,
        vocab_size=words.num_embeddings,
        target_vocab_size=targets.num_embeddings,
        bos_token_id=source.bos(),
        pad_token_id=source.pad(),
        eos_token_id=source.eos(),
        decoder_start_token_id=source.eos(),
    )
    languages = dict(zip(("source_lang", "target_lang"), trained.languages, strict=True))
    return Parts(
        hf.PosAttnForSeq2SeqLM,
        config,
        {name: tensor for name, tensor in model.state_dict().items() if name not in UNREAD},
        partial(hf.PosAttnSeq2SeqTokenizer, **languages, model_max_length=trained.longest),
        lambda lines, others: model(lines, lines.ne(source.pad()).sum(1), others)[0],
        lambda exported, lines, others: exported(lines, decoder_input_ids=others).logits,
        _generation(model, decoding, config),
    )


def _generation(
    model: PosAttnTransformer, decoding: dict[str, float], config: hf.PosAttnSeq2SeqConfig
) -> GenerationConfig:
    """Return fairseq-generate's search settings by the names of ``transformers``."""
    settings = DECODING | decoding
    longest = min(settings["max_len_b"], model.max_decoder_positions() - 1)
    has_beam = settings["beam"] > 1  # transformers refuses a length penalty otherwise
    return GenerationConfig(
        num_beams=settings["beam"],
        length_penalty=settings["lenpen"] if has_beam else 1.0,
        early_stopping=has_beam,  # once as many hypotheses have ended as are followed
        max_new_tokens=longest + 1,  # and the end
        min_new_tokens=settings["min_len"],
        no_repeat_ngram_size=settings["no_repeat_ngram_size"],
        suppress_tokens=[config.pad_token_id],
        do_sample=False,
        **{name: value for name, value in vars(config).items() if name.endswith("_token_id")},
    )


def _plain(options: object, config: type) -> dict[str, Any]:
    """Return a model's options as JSON values: ``config``'s, and those that a user's adds."""
    declared = config_of_model(getattr(options, "_name", None))
    config = declared if declared and issubclass(declared, config) else config
    names = {option.name for option in fields(config)} - {"_name", *LOCAL_PATHS}
    values = {name: getattr(options, name) for name in sorted(names)}
    return {name: getattr(value, "value", value) for name, value in values.items()}


@torch.inference_mode()
def _difference(trained: TrainedModel, parts: Parts, exported: PreTrainedModel) -> float:
    """Return the largest difference between both models' scores; refuse more than rounding."""
    dictionary, generator = trained.task.source_dictionary, torch.Generator().manual_seed(1)
    lines, others = torch.full((2, 3, 6), dictionary.pad())
    target_size = getattr(parts.config, "target_vocab_size", len(dictionary))
    for rows, size in ((lines, len(dictionary)), (others, target_size)):
        for row, length in zip(rows, (5, 3, 1), strict=True):
            first = min(dictionary.nspecial, size - 1)
            row[:length] = torch.randint(first, size, (length,), generator=generator)
            row[length] = dictionary.eos()
    expected = parts.scores(lines, others)
    difference = (parts.exported_scores(exported, lines, others) - expected).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, expected.abs().max().item()):  # nor NaN
        differ = f"its scores would differ by up to {difference:.2g}"
        raise UsageError(f"{trained.path}: cannot be exported: {differ}")
    return difference
