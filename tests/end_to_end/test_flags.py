"""What a user sees of the flags: wrong ones end in one line, and --help explains."""


def test_an_unknown_mechanism_is_one_line(run, train_arguments, tmp_path):
    flags = ["--encoder-sublayers", "dmam,ffn", "--save-dir", tmp_path, "--max-update", "1"]
    output = run("fairseq-train", *train_arguments, *flags, exit_code=1)
    assert "Traceback" not in output
    complaint = (
        "fairseq_posattn: error: --encoder-sublayers dmam,ffn: unknown sublayer 'dmam'; known:"
    )
    assert output.splitlines()[-1].startswith(complaint)


def test_help_explains_the_flags_of_the_mechanisms(run, user_dir):
    options = ["--user-dir", user_dir, "--arch", "posattn_transformer", "--help"]
    output = " ".join(run("fairseq-train", *options).split())
    for text in ("--encoder-sublayers", "learned distances each way", "Shaw's k"):
        assert text in output
