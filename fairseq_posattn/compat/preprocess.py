"""``python -m fairseq_posattn.compat.preprocess``: fairseq-preprocess with the patches alone."""

from fairseq_posattn import compat

if __name__ == "__main__":
    from fairseq_cli import preprocess  # its import sets up the log

    compat.apply()
    preprocess.cli_main()
