"""The sentences of ``posattn analysis``, as tensors of token ids."""

from typing import Any

from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.prediction import predictor_of
from fairseq_posattn.inference.stream import LineNotes, warn
from fairseq_posattn.inference.tokens import Lines
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.model.classifier import SentenceEncoder
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.plain_text import is_visible, plain_word
from fairseq_posattn.training.registered import FairseqDataset, FairseqEncoder, FairseqTask


def encoder_of(trained: TrainedModel) -> FairseqEncoder | SentenceEncoder:
    """Return the encoder; a tagger or recommender, which needs more input, is refused."""
    encoder = getattr(trained.model, "encoder", None)
    if not isinstance(encoder, FairseqEncoder | SentenceEncoder):
        fix = "only its parameters can be shown, without sentences"
        name = type(trained.model).__name__
        raise UsageError(f"{trained.path}: a {name} needs more input than sentences; {fix}")
    return encoder


def read_file(path: str, trained: TrainedModel) -> dict[int, Tensor]:
    """Return the sentences of plain text or tokens (``-``: standard input) by line."""
    reader: Any
    if trained.translates:
        reader = Lines(trained, trained.longest)
        notes: LineNotes = reader.notes()

        def encode(text: str, number: int) -> Tensor:
            line = reader.encode(text)
            if line.cut:
                notes.add("cut", number)
            tokens: Tensor = line.tokens
            return tokens

    else:
        reader = predictor_of(trained, device="cpu")
        notes, is_pair = reader.notes, reader.encodes_pairs
        reader.expects_pairs &= not is_pair  # each sentence of a pair is encoded alone

        def encode(text: str, number: int) -> Tensor:
            encoded: list[Tensor] = reader.encode(
                text.split("\t") if is_pair else text, number, notes
            )
            return encoded[0]

    sentences = {}
    for number, line in enumerate(file_lines(path, allow_empty=True), start=1):
        try:
            if is_visible(line):
                sentences[number] = encode(line, number)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
    if not sentences:
        raise UsageError(f"--sentences {path}: no sentences in it")
    if warning := reader.unknown.warning():
        warn(f"{path}: {warning}")
    for message in notes.warnings(path):
        warn(message)
    return sentences


def load_split(task: FairseqTask, split: str) -> FairseqDataset:
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        missing = f"--split {split}: there is no such split in {task.cfg.data}"
        raise UsageError(f"{missing}; name another, or other data with --data") from error
    return task.dataset(split)


def read_split(split: str, trained: TrainedModel) -> list[Tensor]:
    """Return the source sentences of a split, of pairs both, ``[T]``; refuse too long sentences."""
    dataset, longest = load_split(trained.task, split), trained.longest
    sentences = []
    for number in range(len(dataset)):
        inputs = dataset.collater([dataset[number]])["net_input"]
        for name in filter(inputs.__contains__, ("src_tokens", "pair_tokens")):
            sentences.append(inputs[name][0])
            if (length := len(sentences[-1])) > longest:
                long = f"{length} tokens with the end symbol; the model takes {longest} at most"
                raise UsageError(f"--split {split}:{number + 1}: {long}")
    return sentences


def token_labels(sentence: Tensor, dictionary: Any, rules: Manifest | None = None) -> list[str]:
    """Return a label for each position, without the escapes of text that ``rules`` describe."""
    plain = plain_word(rules)
    return [plain(dictionary[index]) for index in sentence.tolist()]
