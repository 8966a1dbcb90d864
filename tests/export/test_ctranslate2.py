"""Models in CTranslate2's format translate like their checkpoints."""

import pytest
from classifier_builder import PAD, sentences
from test_export import TINY_TRANSFORMER, run

from fairseq_posattn.inference import translation

SAN = "--encoder-sublayers=san,ffn --decoder-sublayers=san,cross,ffn "
RPR = "--encoder-sublayers=rpr,ffn --decoder-sublayers=rpr,cross,ffn "
OPTIONS = {
    "san": SAN,
    "shared": SAN + "--share-all-embeddings --layernorm-embedding --activation-fn=gelu",
    "norms first": SAN + "--encoder-normalize-before --decoder-normalize-before "
    "--decoder-learned-pos --no-scale-embedding --activation-fn=tanh",
    "no final norm": SAN + "--decoder-normalize-before --no-decoder-final-norm "
    "--no-token-positional-embeddings --encoder-embed-dim=12 --activation-fn=gelu_fast",
    "narrower output": SAN + "--decoder-output-dim=10 --activation-fn=gelu_accurate",
    "rpr": RPR + "--rpr-max-distance=3",
    "rpr in the decoder": RPR.replace("rpr", "san", 1) + "--share-decoder-input-output-embed",
}


@pytest.mark.slow
@pytest.mark.parametrize("flags", OPTIONS.values(), ids=OPTIONS)
def test_translations_equal_the_checkpoints(flags, translator, tmp_path, capsys):
    ctranslate2 = pytest.importorskip("ctranslate2")
    arch = "posattn_transformer"
    path, _ = translator(arch, *TINY_TRANSFORMER, *flags.split(), joined="share-all" in flags)
    assert run(path, tmp_path / "out", "--ctranslate2") == 0
    folder = tmp_path / "out/ctranslate2"
    assert f"{folder}: its log-probabilities differ from the model's by" in capsys.readouterr().out
    ours = translation.load(path, device="cpu", beam=1, max_len_b=12)
    source, rows = ours.task.source_dictionary, sentences(7, 1, 12, 30)
    lines = [source.string(row[row.ne(PAD)]) for row in rows]
    theirs = ctranslate2.Translator(str(folder), device="cpu")
    options = {"beam_size": 1, "max_decoding_length": 12, "suppress_sequences": [["<blank>"]]}
    results = theirs.translate_batch([line.split() for line in lines], **options)
    expected = [result.hypotheses[0].pieces for result in ours(lines)]
    tokens = [[token for token in result.hypotheses[0] if token != "<s>"] for result in results]
    assert list(map(" ".join, tokens)) == expected  # which lack it, too


@pytest.mark.slow
def test_a_folder_that_differs_is_removed(translator, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ctranslate2")
    from fairseq_posattn.export import ctranslate2

    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER)
    monkeypatch.setattr(ctranslate2, "TOLERANCE", -1.0)
    assert run(path, tmp_path / "out", "--ctranslate2") == 1
    assert "leave the flag out" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*ctranslate2*"))


@pytest.mark.slow
def test_all_that_ctranslate2_lacks_is_named(translator, tmp_path, capsys):
    pytest.importorskip("ctranslate2")
    flags = ["--encoder-sublayers=dman,san,ffn", "--decoder-sublayers=rpr,cross,ffn"]
    flags += ["--rpr-per-head", "--activation-fn=linear", "--heads-activation=relu"]
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, *flags)
    assert run(path, tmp_path / "out", "--ctranslate2") == 1
    lacking = "--encoder-sublayers dman,san,ffn, --activation-fn linear, --heads-activation relu, "
    error = f"error: --ctranslate2: it has no {lacking}--rpr-per-head; leave the flag out"
    assert error in capsys.readouterr().err
