"""The table of what each switch of an update gains."""

import json

from tools.pages import speed
from tools.pages.results import Results


def report(path, arch, **ratios):
    contestants = [
        {"name": name, "flags": f"--{name}", "milliseconds": 1234.5, "launches": 7}
        | {f"time_ratio{end}": ratio for end in ("", "_lowest", "_highest")}
        for name, ratio in ratios.items()
    ]
    path.write_text(json.dumps({"pairs": [{"arch": arch, "contestants": contestants}]}))


def rows(folder):
    return speed.switches(Results(folder, folder)).splitlines()[2:]


def test_what_was_measured_on_neither_or_on_one_device_says_so(tmp_path):
    assert speed.switches(Results(tmp_path, tmp_path)) == speed.EMPTY
    (tmp_path / "gpu").mkdir()
    report(tmp_path / "switches_cpu.json", "dman_iwslt_de_en", stock=1.0, both=0.5)
    report(tmp_path / "switches_cpu_compiled.json", "dman_iwslt_de_en", stock=1.0, compiled=0.75)
    cpu = "| `--both` | 1,234 | 7 | 0.50 (0.50 to 0.50)"
    assert [row.split()[1] for row in rows(tmp_path)] == ["stock", "both", "compiled"]
    assert rows(tmp_path)[1] == f"| both {cpu} | not measured | not measured | not measured |"
    report(tmp_path / "gpu" / "switches_dman_iwslt_de_en.json", "dman_iwslt_de_en", both=0.25)
    report(tmp_path / "gpu" / "switches_dman_wmt_en_de.json", "dman_wmt_en_de", both=0.125)
    report(tmp_path / "switches_cpu_intel.json", "dman_summarization", both=0.75)
    summaries = "0.75 (0.75 to 0.75)"
    assert rows(tmp_path)[1] == f"| both {cpu} | not measured | {summaries} | 0.25 (0.25 to 0.25) |"
    assert rows(tmp_path)[2].endswith("| not measured |")
