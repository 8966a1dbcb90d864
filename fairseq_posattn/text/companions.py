"""What a trained model needs of the folder of its data: manifest, dictionaries and codes."""

import os
from pathlib import Path

from fairseq_posattn.common.files import writing
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import codes_file

DICTIONARIES = ("dict.*.txt", "*/dict.txt")


def copy_companions(data: Path, folder: Path) -> None:
    """Copy them beside a checkpoint, whose folder can then be moved as a whole.

    Where data has no manifest, nothing is copied: nothing says then how its text was made.
    Recommenders need its titles, too, and so all of it.

    Args:
        data: binarised data. folder: of the checkpoint.

    Raises:
        UsageError: one is not there, or cannot be written.
    """
    told = manifest.read(data)
    if told is None or told.task == "news_recommendation" or os.path.samefile(data, folder):
        return
    files = {path.relative_to(data): path for kind in DICTIONARIES for path in data.glob(kind)}
    if codes := codes_file(data, told):
        files[Path(codes.name)] = codes
    files[Path(manifest.NAME)] = data / manifest.NAME  # last: where it is, all is
    for name, path in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        with writing(folder / name, binary=True) as copy:
            copy.write(path.read_bytes())
