"""The sentences of ``posattn analysis``, as tensors of token ids."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.prediction import predictor_of
from fairseq_posattn.inference.stream import LineNotes, warn
from fairseq_posattn.inference.tokens import Lines, UnknownTokens
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
    encode, unknown, notes = _text_reader(trained)
    sentences = {}
    for number, line in enumerate(file_lines(path, allow_empty=True), start=1):
        try:
            if is_visible(line):
                sentences[number] = encode(line, number)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
    if not sentences:
        raise UsageError(f"--sentences {path}: no sentences in it")
    if warning := unknown.warning():
        warn(f"{path}: {warning}")
    for message in notes.warnings(path):
        warn(message)
    return sentences


def _text_reader(
    trained: TrainedModel,
) -> tuple[Callable[[str, int], Tensor], UnknownTokens, LineNotes]:
    """Return a function from a line and its number to token ids, and what it counts."""
    if trained.translates:
        lines = Lines(trained, trained.longest)
        notes = lines.notes()

        def encode(text: str, number: int) -> Tensor:
            line = lines.encode(text)
            if line.cut:
                notes.add("cut", number)
            return line.tokens

        return encode, lines.unknown, notes
    predictor: Any = predictor_of(trained, device="cpu")
    read, notes, is_pair = predictor.encode, predictor.notes, predictor.encodes_pairs
    if is_pair:  # each sentence of a pair is encoded alone
        predictor.expects_pairs = False

    def encode_text(text: str, number: int) -> Tensor:
        encoded: list[Tensor] = read(text.split("\t") if is_pair else text, number, notes)
        return encoded[0]

    return encode_text, predictor.unknown, notes


def load_split(task: FairseqTask, split: str) -> FairseqDataset:
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        missing = f"--split {split}: there is no such split in {task.cfg.data}"
        fix = "name another, or the folder of the binarized data with --data"
        raise UsageError(f"{missing}; {fix}") from error
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
