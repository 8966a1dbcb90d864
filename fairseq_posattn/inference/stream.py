"""Lines in, answers out: reading lines as they arrive, and answering them in groups."""

import os
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.common.progress import say
from fairseq_posattn.text.lines import COMPRESSED, decoded
from fairseq_posattn.text.plain_text import is_visible

if TYPE_CHECKING:  # a command's --help needs no PyTorch
    import torch

    from fairseq_posattn.inference.trained_model import TrainedModel

MAX_LINE_BYTES = 1 << 21
BLOCK_BYTES = 1 << 16


def arriving_lines(descriptor: int, group_size: int, name: str) -> Iterator[list[bytes]]:
    """Yield the lines of an open file in groups of those that have arrived, at most ``group_size``.

    It never waits for a group to fill up. A line of the file ``name`` that is longer than
    :data:`MAX_LINE_BYTES` raises UsageError.
    """
    rest, lines = b"", []
    while chunk := os.read(descriptor, BLOCK_BYTES):
        if len(rest) > MAX_LINE_BYTES:
            raise UsageError(f"{name}: a line of more than {MAX_LINE_BYTES:,} bytes is no text")
        *complete, rest = (rest + chunk).split(b"\n")
        lines += complete
        while len(lines) >= group_size:
            yield lines[:group_size]
            del lines[:group_size]
        if lines and not select.select([descriptor], [], [], 0)[0]:
            yield lines
            lines = []
    if rest:
        lines.append(rest)
    if lines:
        yield lines


class LineNotes:
    """Lines that were cut or could not be read, counted for one warning of each kind.

    ``read`` is what the model reads of a line, ``fix`` what changes it; ``unit`` names a line.
    """

    def __init__(self, read: str = "", fix: str = "", unit: str = "line"):
        self.read, self.fix, self.unit = read, fix, unit
        self.notes: dict[str, tuple[int, int, str]] = {}  # count, first line, reason

    def add(self, kind: str, number: int, reason: object = "") -> None:
        """Count line ``number``; ``kind`` is a key of ``what`` in :meth:`warnings`."""
        count, first, why = self.notes.get(kind, (0, number, str(reason)))
        self.notes[kind] = (count + 1, first, why)

    def count(self, kind: str) -> int:
        return self.notes.get(kind, (0,))[0]

    def warnings(self, name: str) -> Iterator[str]:
        """Yield a warning for each kind, with the count and the first line's number."""
        for kind, (count, number, reason) in self.notes.items():
            lines = f"1 {self.unit} was" if count == 1 else f"{count:,} {self.unit}s were"
            what = {
                "cut": f"cut to the {self.read} that the model reads",
                "longest": "answered with the maximum output length, maybe cut",
                "tab": "read with a space for each TAB, since the model takes one sentence",
                "invalid": f"answered with a blank line: {reason}",
            }[kind]
            first = f"{self.unit} {number}" if count == 1 else f"first: {self.unit} {number}"
            fix = {"cut": self.fix, "longest": "see --max-len-a and --max-len-b"}.get(kind)
            yield f"{name}: {lines} {what} ({first}){f'; {fix}' if fix else ''}"

    def require_answers(self, name: str, answered: int) -> None:
        """Raise UsageError if lines could not be read and none was ``answered``."""
        count, number, reason = self.notes.get("invalid", (0, 0, ""))
        if count and not answered:
            raise UsageError(f"{name}:{number}: {reason}")


def decode_line(line: bytes, name: str, number: int, notes: LineNotes) -> str:
    """Return line ``number`` of a file as text, without its byte order mark.

    A line that is not UTF-8 is added to ``notes`` and returned blank; a compressed file is a
    UsageError.
    """
    try:
        text = decoded(line)
    except UsageError as error:
        if number == 1 and line.startswith(tuple(COMPRESSED)):
            raise UsageError(f"{name}: {error}") from None
        notes.add("invalid", number, error)
        return ""
    return text.removeprefix("\ufeff") if number == 1 else text


def list_texts(texts: Iterable[Any], what: str = "text", several: bool = False) -> list[Any]:
    """Return texts as a list; raise TypeError for the first that is not a string.

    With ``several`` each may also be a list or tuple of strings.
    """
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"{what}: {shortened(texts)}: must be a string or several")
    texts = list(texts)
    for number, text in enumerate(texts, start=1):
        parts = text if several and isinstance(text, list | tuple) else [text]
        if not all(isinstance(part, str) for part in parts):
            raise TypeError(f"{what} {number}: {shortened(text)}: must be a string")
    return texts


def encode_texts(texts: Iterable[Any], encode: Callable[[Any, int], Any]) -> list[Any]:
    """Return ``encode(text, number)`` of each text; a UsageError names the number of the text."""
    encoded = []
    for number, text in enumerate(texts, start=1):
        try:
            encoded.append(encode(text, number))
        except UsageError as error:
            raise UsageError(f"text {number}: {error}") from None
    return encoded


def warn(message: str) -> None:
    """Print a warning on standard error."""
    say(f"warning: {message}")


def batches(
    lengths: Sequence[int],
    batch_size: int,
    max_tokens: float = float("inf"),
    equal_lengths: bool = False,
) -> Iterator[list[int]]:
    """Yield the indices of the lines of each batch, which have similar or ``equal_lengths``.

    The longest come first, so that running out of memory shows at once. Lines of length 0 are left
    out. A line of more than ``max_tokens`` is a batch by itself; padding counts.
    """
    rows_with_text = (row for row, length in enumerate(lengths) if length)
    order = sorted(rows_with_text, key=lambda row: -lengths[row])
    while order:
        longest = lengths[order[0]]
        rows = order[: int(max(1, min(batch_size, max_tokens // longest)))]
        if equal_lengths:
            rows = [row for row in rows if lengths[row] == longest]
        yield rows
        del order[: len(rows)]


class Reloadable:
    """Base of models that are pickled as the call that loads them, as for spawned processes."""

    reload: Callable[[], object] | None = None

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        if self.reload is None:
            raise TypeError(f"{type(self).__name__}: only one that load returned can be pickled")
        return self.reload, ()


class LineReader(Reloadable):
    """Base of predictors that answer lines as they arrive; ``words`` tokenizes texts."""

    nothing: Any  # the prediction for a blank line
    encode_line: Callable[[str, int], Any]  # from a line and its number to the model's input
    predict: Callable[..., list[Any]]  # from encoded lines, of which blank ones are None

    def __init__(
        self,
        trained: "TrainedModel",
        words: Callable[[str], str],
        lower: bool,
        device: "torch.device",
    ):
        self.path, self.task = trained.path, trained.task
        self.model = trained.model.to(device)
        self.dictionary = self.task.source_dictionary
        self.words, self.lower, self.device = words, lower, device
        self.notes = LineNotes()

    def read_groups(
        self, groups: Iterable[list[bytes]], name: str, batch_size: int = 64
    ) -> Iterator[list[Any]]:
        """Yield the predictions of each group of lines in UTF-8; ``name`` is their file's.

        A line that cannot be read has that of a blank line and is counted in ``notes``; if there
        are no others, it is a UsageError.
        """
        before = answered = 0
        for group in groups:
            numbered = enumerate(group, start=before + 1)
            encoded = [self._read(line, name, number) for number, line in numbered]
            before += len(group)
            answered += sum(line is not None for line in encoded)
            yield self.predict(encoded, batch_size)
        self.notes.require_answers(name, answered)

    def _read(self, line: bytes, name: str, number: int) -> Any:
        text = decode_line(line, name, number, self.notes).rstrip("\r\n")
        try:
            return self.encode_line(text, number) if is_visible(text) else None
        except UsageError as error:
            self.notes.add("invalid", number, error)
            return None
