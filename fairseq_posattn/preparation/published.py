"""Published files by name, and the attributes of the data sets made of them: published.yaml."""

from pathlib import Path
from typing import Any

from fairseq_posattn.common.yaml_tables import read_table
from fairseq_posattn.preparation.download import Source

CHECKSUM = "sha256:"


def _source(name: str, places: str) -> Source:
    urls = [one for one in places.split() if not one.startswith(CHECKSUM)]
    digests = [one.removeprefix(CHECKSUM) for one in places.split() if one.startswith(CHECKSUM)]
    whole = tuple(f"{url}{name}" if url.endswith("/") else url for url in urls)
    return Source(name, whole, *digests)


TABLES: dict[str, dict[str, Any]] = read_table(Path(__file__).with_suffix(".yaml"))
GLOVE: dict[str, Any] = TABLES["glove"]
FILES = {name: _source(name, places) for name, places in TABLES["files"].items()}
