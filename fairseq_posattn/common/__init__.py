"""Errors, files, command lines and figures: what every package uses."""
