"""A checkpoint as a folder that ``transformers`` loads.

from fairseq_posattn.export.checkpoint import export

export("checkpoints/sst5/checkpoint_best.pt", "sst5")
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.plugin import register

register()  # before the first import of fairseq, which it quiets

from fairseq import utils  # noqa: E402
from fairseq.tasks.translation import TranslationTask  # noqa: E402
from safetensors import SafetensorError  # noqa: E402
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizer  # noqa: E402

from fairseq_posattn import hugging_face  # noqa: E402
from fairseq_posattn.inference.prediction import Predictor  # noqa: E402
from fairseq_posattn.inference.trained_model import TrainedModel, load  # noqa: E402
from fairseq_posattn.text import manifest  # noqa: E402
from fairseq_posattn.text.plain_text import codes_file  # noqa: E402
from fairseq_posattn.training.models import (  # noqa: E402
    PosAttnClassifier,
    PosAttnClassifierConfig,
    PosAttnTransformer,
    PosAttnTransformerConfig,
)
from fairseq_posattn.training.models.classifier import find_marks  # noqa: E402
from fairseq_posattn.training.models.registration import all_options  # noqa: E402

__all__ = ["export"]

TOLERANCE = 1e-4
# What says where files were on the machine of the training.
PLACES = ("encoder_embed_path", "decoder_embed_path")
# What fairseq writes beside the weights, and no model of ours reads.
UNREAD = ("encoder.version", "decoder.version")


@dataclass(frozen=True)
class Exported:
    """The contents of an exported folder.

    Attributes:
        model: as ``transformers`` loads it. tokenizer: likewise.
        difference: the greatest between its scores and the checkpoint's, of a few made-up lines.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizer
    difference: float


def export(checkpoint: str, folder: str, data: str | None = None, **decoding: float) -> Exported:
    """Write a folder of weights, configuration and tokeniser.

    Args:
        checkpoint: of a model that translates, summarises or classifies.
        folder: to write; it may be there if it is empty.
        data: the directory of its dictionaries; None for that of the checkpoint, if training has
            copied them there, or else where they were in training.
        decoding: of a model that writes, ``beam``, ``lenpen``, ``max_len_b``, ``min_len`` and
            ``no_repeat_ngram_size``, as fairseq has them: ``generate`` goes by them.

    Raises:
        UsageError: the checkpoint cannot be exported, or the folder not be written.
    """
    target = Path(folder)
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise UsageError(f"{folder} is there already: name another folder, or take it away")
    trained = load(str(checkpoint), data)
    kinds = {PosAttnTransformer: _seq2seq, PosAttnClassifier: _classifier}
    make = next((make for kind, make in kinds.items() if isinstance(trained.model, kind)), None)
    if make is None:
        raise UsageError(
            f"{checkpoint} is a {type(trained.model).__name__}: models that translate, summarise "
            "or classify can be exported, and no others"
        )
    beside = target.absolute().parent
    try:
        beside.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}.", dir=beside) as unfinished:
            part = Path(unfinished) / target.name
            part.mkdir()
            exported = make(trained, part, decoding)
            for file in part.iterdir():  # some are for the owner alone
                file.chmod((part / "vocab.json").stat().st_mode)
            part.rename(target)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{folder} cannot be written: {reason}") from error
    return exported


def _classifier(trained: TrainedModel, folder: Path, unused) -> Exported:
    model, task = trained.model, trained.task
    if model.encoder.language_model is not None:
        raise UsageError(f"{trained.path}: a model with --language-model cannot be exported")
    predictor = Predictor(trained, None, torch.device("cpu"))
    marks = find_marks(model.cfg, task.source_dictionary)
    config = hugging_face.PosAttnTextConfig(
        options=_plain(model.cfg, PosAttnClassifierConfig),
        vocab_size=model.encoder.embed_tokens.num_embeddings,
        pad_token_id=marks.pad,
        eos_token_id=marks.eos,
        separator_id=marks.separator,
        sentence_end_ids=list(marks.ends),
        encodes_pairs=model.encodes_pairs,
        id2label=dict(enumerate(predictor.names)),
        label2id={name: number for number, name in enumerate(predictor.names)},
    )
    _write_vocabulary(folder / "vocab.json", task.source_dictionary)
    before = (None, None)
    if not predictor.encodes_apart:
        before = (task.cfg.init_token, task.cfg.separator_token)
    tokenizer = hugging_face.PosAttnClassifierTokenizer(
        str(folder / "vocab.json"),
        words=predictor.rule_of_text(),
        lower=predictor.lower,
        apart=predictor.encodes_apart,
        before=before,
        model_max_length=task.cfg.max_positions,
    )
    head = f"classification_heads.{task.cfg.classification_head_name}."
    state = {name.replace(head, "head."): tensor for name, tensor in model.state_dict().items()}
    exported = _write(hugging_face.PosAttnForSequenceClassification, config, state, folder)

    def scores(lines, others):
        pairs = {"pair_tokens": others} if model.encodes_pairs else {}
        head = task.cfg.classification_head_name
        return model(lines, classification_head_name=head, **pairs)[0]

    def exported_scores(lines, others):
        if not model.encodes_pairs:
            return exported(lines).logits
        types = torch.cat([torch.zeros_like(lines), torch.ones_like(others)], 1)
        return exported(torch.cat([lines, others], 1), token_type_ids=types).logits

    difference = _difference(trained, scores, exported_scores)
    return _with_tokenizer(exported, tokenizer, difference, folder)


def _seq2seq(trained: TrainedModel, folder: Path, decoding: Mapping[str, float]) -> Exported:
    model, task = trained.model, trained.task
    if not isinstance(task, TranslationTask):
        raise UsageError(
            f"{trained.path}: it was trained with --task {trained.task_name}, and only models of "
            "--task translation can be exported"
        )
    options = all_options(trained.config, PosAttnTransformerConfig)
    options = _plain(options, PosAttnTransformerConfig)
    if options["adaptive_softmax_cutoff"]:
        raise UsageError(f"{trained.path}: --adaptive-softmax-cutoff cannot be exported")
    words, targets = model.encoder.embed_tokens, model.decoder.embed_tokens
    options["share_all_embeddings"] = targets is words
    options["share_decoder_input_output_embed"] = (
        model.decoder.output_projection.weight is targets.weight
    )
    source, target = task.source_dictionary, task.target_dictionary
    marks = {"pad_token_id": source.pad(), "eos_token_id": source.eos()}
    config = hugging_face.PosAttnSeq2SeqConfig(
        options=options,
        vocab_size=words.num_embeddings,
        target_vocab_size=targets.num_embeddings,
        bos_token_id=source.bos(),
        decoder_start_token_id=source.eos(),
        **marks,
    )
    tokenizer = _seq2seq_tokenizer(task, model, folder)
    state = {name: tensor for name, tensor in model.state_dict().items() if name not in UNREAD}
    generation = _generation(model, decoding, config)
    exported = _write(hugging_face.PosAttnForSeq2SeqLM, config, state, folder, generation)

    def scores(lines, others):
        return model(lines, lines.ne(source.pad()).sum(1), others)[0]

    def exported_scores(lines, others):
        return exported(lines, decoder_input_ids=others).logits

    difference = _difference(trained, scores, exported_scores, len(target))
    return _with_tokenizer(exported, tokenizer, difference, folder)


def _seq2seq_tokenizer(task, model, folder):
    _write_vocabulary(folder / "vocab.json", task.source_dictionary)
    separate = None
    if task.target_dictionary != task.source_dictionary:
        separate = str(folder / "target_vocab.json")
        _write_vocabulary(separate, task.target_dictionary)
    data = Path(utils.split_paths(task.cfg.data)[0])
    told = manifest.read(data)
    if told is not None:
        manifest.write(folder, told)
        if codes := codes_file(data, told):
            shutil.copyfile(codes, folder / codes.name)
    longest, _ = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    return hugging_face.PosAttnSeq2SeqTokenizer(
        str(folder / "vocab.json"),
        target_vocab_file=separate,
        source_lang=task.cfg.source_lang,
        target_lang=task.cfg.target_lang,
        model_max_length=longest,
    )


def _generation(model, decoding, config):
    """Return fairseq-generate's search settings by the names of ``transformers``."""
    given = {"beam": 5, "lenpen": 1.0, "max_len_b": 200, "min_len": 1, "no_repeat_ngram_size": 0}
    given |= decoding
    longest = min(given["max_len_b"], model.max_decoder_positions() - 1)
    return GenerationConfig(
        num_beams=given["beam"],
        length_penalty=given["lenpen"],
        early_stopping=given["beam"] > 1,  # once as many hypotheses have ended as are followed
        max_new_tokens=longest + 1,  # and the end
        min_new_tokens=given["min_len"],
        no_repeat_ngram_size=given["no_repeat_ngram_size"],
        suppress_tokens=[config.pad_token_id],
        do_sample=False,
        bos_token_id=config.bos_token_id,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )


def _plain(options, config: type) -> dict[str, object]:
    """Return a model's options as JSON values."""
    names = {option.name for option in fields(config)} - {"_name", *PLACES}
    given = {name: getattr(options, name) for name in sorted(names)}
    return {
        name: value.value if isinstance(value, Enum) else value for name, value in given.items()
    }


def _write_vocabulary(path, dictionary):
    numbers = {symbol: number for number, symbol in enumerate(dictionary.symbols)}
    Path(path).write_text(json.dumps(numbers, ensure_ascii=False, indent=0), encoding="utf-8")


def _write(kind, config, state, folder, generation=None) -> PreTrainedModel:
    """Write the model and load it again."""
    model = kind(config)
    model.load_state_dict(state)
    if generation is not None:
        model.generation_config = generation
    model.save_pretrained(folder)
    return kind.from_pretrained(folder).eval()


def _with_tokenizer(model, tokenizer, difference, folder) -> Exported:
    tokenizer.save_pretrained(folder)
    return Exported(model, tokenizer, difference)


@torch.inference_mode()
def _difference(
    trained: TrainedModel,
    scores: Callable[[Tensor, Tensor], Tensor],
    exported_scores: Callable[[Tensor, Tensor], Tensor],
    other_words: int | None = None,
) -> float:
    """Return the largest difference between both models' scores on generated lines.

    Raises:
        UsageError: it is more than rounding makes.
    """
    dictionary = trained.task.source_dictionary
    others = _made_up(dictionary, other_words or len(dictionary), seed=2)
    lines = _made_up(dictionary, len(dictionary), seed=1)
    expected, found = scores(lines, others), exported_scores(lines, others)
    difference = (found - expected).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, expected.abs().max().item()):  # nor NaN
        raise UsageError(
            f"{trained.path}: exported, it gives other scores, by up to {difference:.2g}: it has "
            "an option that cannot be exported"
        )
    return difference


def _made_up(dictionary, words: int, seed: int) -> Tensor:
    """Return generated lines of 5, 3 and 1 words, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    first = min(dictionary.nspecial, words - 1)
    lines = torch.full((3, 6), dictionary.pad())
    for line, length in zip(lines, (5, 3, 1), strict=True):
        line[:length] = torch.randint(first, words, (length,), generator=generator)
        line[length] = dictionary.eos()
    return lines
