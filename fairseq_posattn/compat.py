"""What fairseq needs on today's PyTorch, and nothing else."""


def apply():
    """Prepare fairseq for the running PyTorch; calling it again changes nothing."""
