"""Custom corpora: the user's files instead of a publication, described like the published ones."""
