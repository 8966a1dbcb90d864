"""The numbers of the documentation, written from the files of what was measured."""
