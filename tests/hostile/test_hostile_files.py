"""No file that is handed to a command runs code, crashes it or fills the memory."""

import file_readers
import pytest
from file_readers import READERS
from hostile_files import FILES
from test_hostile_checkpoints import complaints

PAIRS = [(kind, reader) for kind, readers in READERS.items() for reader in readers]
# Text may be anything: a blank file, too, and what another program writes into a FIFO.
HARMLESS = {("codes", "nothing"), ("text", "nothing"), ("text", "bytes"), ("text", "pickle")}
HARMLESS |= {("text", name) for name in FILES["text"]}


@pytest.mark.parametrize("kind, reader", PAIRS, ids=map("-".join, PAIRS))
def test_no_file_does_harm(kind, reader, tmp_path):
    given, found = file_readers.try_all(kind, reader, tmp_path)
    assert not (tmp_path / "canary").exists()
    harm = {}
    for name, result in found.items():
        wrong = complaints(result, given, (kind, name) in HARMLESS)
        if wrong:
            harm[name] = wrong
    assert not harm, "\n\n".join(f"--- {name}\n" + "\n".join(wrong) for name, wrong in harm.items())
