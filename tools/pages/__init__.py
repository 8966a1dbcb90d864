"""Generated blocks of the documentation, written from result files."""
