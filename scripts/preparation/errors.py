"""Errors that are the user's to mend."""


class DataError(Exception):
    """Data that cannot be used; the message is one line that names file, line, value and mend."""
