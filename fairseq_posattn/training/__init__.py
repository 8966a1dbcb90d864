"""What fairseq is given: flags, architectures, models, tasks and criterions."""
