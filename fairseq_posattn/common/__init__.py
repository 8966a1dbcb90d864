"""Errors, files, command lines, processes and figures, used by every package."""
