"""What a user sees of the flags: wrong ones end in one line, and the others are explained."""

import sys


def test_an_unknown_mechanism_is_one_line(run, train_arguments, tmp_path):
    flags = ["--encoder-sublayers", "dmam,ffn", "--save-dir", tmp_path, "--max-update", "1"]
    output = run("fairseq-train", *train_arguments, *flags, exit_code=1)
    assert "Traceback" not in output
    complaint = (
        "fairseq_posattn: error: --encoder-sublayers dmam,ffn: unknown sublayer 'dmam'; known:"
    )
    assert output.splitlines()[-1].startswith(complaint)


def test_the_flags_and_architectures_of_the_plugin(run):
    flags = " ".join(run(sys.executable, "-m", "fairseq_posattn", "--flags").split())
    for text in (
        *("--encoder-sublayers", "learned distances each way", "number of attention heads"),
        *("--arch posattn_classifier", "--mpsan-masks", "--task sentence_pair_prediction"),
        *("--criterion relatedness", "flags of rating_regression"),
    ):
        assert text in flags
    names = run(sys.executable, "-m", "fairseq_posattn", "--architectures").splitlines()
    assert {"posattn_transformer", "dman_iwslt_de_en", "dman_summarization"} <= set(names)
    assert "transformer" not in names
