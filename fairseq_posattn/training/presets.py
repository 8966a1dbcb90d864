"""Named architectures: the defaults of its model that each changes, written in presets.yaml."""

from collections.abc import Mapping
from pathlib import Path

from fairseq_posattn.common.files import read_table

SIDES = ("encoder_", "decoder_")


def _read_presets() -> dict[str, dict[str, dict[str, object]]]:
    """Return the options by model and architecture."""
    described = read_table(Path(__file__).with_suffix(".yaml"))
    del described["shared"]
    for presets in described.values():
        for options in presets.values():
            for name in [name for name in options if name.startswith("both_")]:
                value = options.pop(name)
                options |= {name.replace("both_", side): value for side in SIDES}
    return described


ARCHITECTURES: Mapping[str, Mapping[str, Mapping[str, object]]] = _read_presets()


def preset(name: str) -> Mapping[str, object]:
    """Return the options that an architecture changes; none for an unknown name."""
    return next((presets[name] for presets in ARCHITECTURES.values() if name in presets), {})
