"""Flags of the plugin: wrong ones end in one line, and the others are explained."""

from fairseq_posattn.__main__ import main


def test_an_unknown_mechanism_is_one_line(run, train_arguments, tmp_path):
    flags = ["--encoder-sublayers", "dmam,ffn", "--save-dir", tmp_path, "--max-update", "1"]
    output = run("fairseq-train", *train_arguments, *flags, exit_code=1)
    assert "Traceback" not in output
    complaint = (
        "fairseq_posattn: error: --encoder-sublayers dmam,ffn: unknown sublayer 'dmam'; known:"
    )
    assert output.splitlines()[-1].startswith(complaint)


def test_the_flags_and_architectures_of_the_plugin(capsys):
    main(["--flags"])
    flags = " ".join(capsys.readouterr().out.split())
    for text in (
        *("--encoder-sublayers", "largest learned distance", "(default: san,ffn)"),
        *("--arch posattn_classifier", "--mpsan-masks", "--task sentence_pair_prediction"),
        *("--criterion relatedness", "flags of rating_regression"),
    ):
        assert text in flags
    main(["--architectures"])
    names = capsys.readouterr().out.splitlines()
    assert {"posattn_transformer", "dman_iwslt_de_en", "dman_summarization"} <= set(names)
    assert "transformer" not in names
