"""Text: lines, tokens, subwords, vocabularies, manifests and role columns."""
