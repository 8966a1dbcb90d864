"""Safe reading of fairseq's checkpoints: the file's form, its contents and its settings."""
