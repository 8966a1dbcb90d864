"""Lines of a file, answered as they come: what classifiers and taggers have in common."""

from collections.abc import Iterable, Iterator

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import decoded


class LineReader:
    """A subclass has ``encode_line``, which makes of a line what ``predict`` takes and answers.

    To ``predict`` None is a blank line; ``encode_line`` may say that one is as good as blank.
    """

    def read_groups(
        self, groups: Iterable[list[bytes]], name: str, batch_size: int = 64
    ) -> Iterator[list]:
        """Answer lines, in groups that are answered together.

        Args:
            groups: of lines in UTF-8.
            name: of their file, for errors.
            batch_size: what the model sees at once.

        Raises:
            UsageError: a line cannot be read; those before it have been answered then.
        """
        number = 0
        for group in groups:
            encoded = []
            for line in group:
                number += 1
                try:
                    text = decoded(line).rstrip("\r\n")
                    text = text.removeprefix("\ufeff") if number == 1 else text
                    encoded.append(self.encode_line(text) if text.strip() else None)
                except UsageError as error:
                    yield self.predict(encoded, batch_size)
                    raise UsageError(f"{name}:{number}: {error}") from None
            yield self.predict(encoded, batch_size)
