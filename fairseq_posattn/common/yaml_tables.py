"""The package's tables of data in YAML, read by the C library where there is one."""

from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """Return the content of a YAML file of the package."""
    return yaml.load(path.read_text(encoding="utf-8"), LOADER)
