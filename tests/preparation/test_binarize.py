"""Calls of fairseq-preprocess through a stand-in; end-to-end tests call the real one."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.binarize import preprocess


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Return a function that makes ``python -m fairseq_cli.preprocess`` run other code."""
    package = tmp_path / "packages" / "fairseq_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    return (package / "preprocess.py").write_text


def test_sizes_are_printed_once_and_the_log_is_removed(stand_in, tmp_path):
    log = tmp_path / "preprocess.log"
    stand_in(f"""
open({str(log)!r}, "w")
print("INFO:fairseq_cli.preprocess:Namespace(no_progress_bar=False)")
for side in "de", "en":
    print(f"INFO:fairseq_cli.preprocess:[{{side}}] Dictionary: 104 types")
    print(f"INFO:fairseq_cli.preprocess:[{{side}}] /a/b.{{side}}: 9 sents, 81 tokens, 0% ...")
""")
    lines = []
    preprocess(tmp_path, 1, tell=lines.append)
    assert lines == [
        "Dictionary: 104 types",
        "b.de: 9 sents, 81 tokens, 0% ...",
        "b.en: 9 sents, 81 tokens, 0% ...",
    ]
    assert not log.exists()


def test_a_failure_reports_the_last_line_of_fairseq(stand_in, tmp_path):
    stand_in("raise FileNotFoundError('text/bpe.train.de')")
    with pytest.raises(UsageError) as caught:
        preprocess(tmp_path, 1)
    assert str(caught.value) == ("fairseq-preprocess failed: FileNotFoundError: text/bpe.train.de")
