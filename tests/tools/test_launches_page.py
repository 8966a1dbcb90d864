"""What an update launches, and what a kernel of sum, dropout and norm would save, on the page."""

import json

from tools.pages import speed
from tools.pages.results import Results


def test_groups_are_added_up_and_what_would_be_saved_is_a_share_of_all(tmp_path):
    results = Results(tmp_path, tmp_path)
    assert speed.launches(results) == speed.norms(results) == speed.EMPTY
    groups = [
        {"group": name, "launches": 600, "stock_launches": 900, "bytes": 1e9, "stock_bytes": 2e9}
        for name in ("products", "sums")
    ]
    norms = {"places": 24, "launches": 72, "bytes": 1e8}
    pair = {"arch": "dman", "groups": groups, "norms": norms}
    (tmp_path / "launches.json").write_text(json.dumps({"pairs": [pair]}))
    host = [
        {"by": "PyTorch", "launches": 7, "microseconds": 33.4},
        {"by": "kernels", "launches": 4, "microseconds": 41.2},
    ]
    (tmp_path / "norms.json").write_text(json.dumps({"rows": host}))
    products, _, everything = speed.launches(results).splitlines()[2:]
    assert products == "| products | 600 | 900 | 1,000 | 2,000 |"
    assert everything == "| all | 1,200 | 1,800 | 2,000 | 4,000 |"
    told = speed.norms(results)
    assert "launch 72 less of 1,200 (6%), and move 100 MB less of 2,000 (5%)" in told
    assert "41 microseconds a norm for kernels that do nothing, and takes 33 for PyTorch's" in told
