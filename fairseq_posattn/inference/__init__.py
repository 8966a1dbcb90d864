"""Use trained models: load, translate, classify, tag, rank, average."""
