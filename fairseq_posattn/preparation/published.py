"""Published files by name, and the attributes of the data sets made of them: published.yaml."""

from pathlib import Path
from typing import Any

import yaml

from fairseq_posattn.preparation.download import Source

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CHECKSUM = "sha256:"


def _source(name: str, places: str) -> Source:
    urls = [one for one in places.split() if not one.startswith(CHECKSUM)]
    digests = [one.removeprefix(CHECKSUM) for one in places.split() if one.startswith(CHECKSUM)]
    whole = tuple(f"{url}{name}" if url.endswith("/") else url for url in urls)
    return Source(name, whole, *digests)


TABLES: dict[str, dict[str, Any]] = yaml.load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), LOADER
)
GLOVE: dict[str, Any] = TABLES["glove"]
FILES = {name: _source(name, places) for name, places in TABLES["files"].items()}
