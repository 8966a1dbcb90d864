"""Files other than checkpoints that would run code, crash or fill the memory.

``files_of(kind)[name](path, canary)`` makes one at ``path``, where a good one may lie; the file
``canary`` must not appear when it is read.
"""

import os
import pickle

from hostile_checkpoints import touch


def of(content):
    """Return a function that writes contents: bytes, or a function of them and the canary."""

    def write(path, canary):
        good = path.read_bytes() if path.is_file() else b""
        path.unlink(missing_ok=True)
        path.write_bytes(content(good, canary) if callable(content) else content)

    return write


def endless(path, canary):
    """Write a sparse file of a terabyte."""
    of(b"")(path, canary)
    os.truncate(path, 1 << 40)


ANY = {
    "nothing": of(b""),
    "bytes": of(bytes(range(256)) * 40),
    "pickle": of(lambda good, canary: pickle.dumps(touch(canary), protocol=0)),
    "endless": endless,
}
FILES = {
    "vectors": {
        "width": of(b"2 1000000000000\na 1 2\nb 1 2\n"),
        "long": of(b"1 12\na" + b" 1" * 5_000_000 + b"\n"),
    },
    "dictionary": {"code": of(b"a __import__('os').system('touch canary')\n")},
    "codes": {"version": of(b"#version: 9999999999.x\na b\n")},
    "sentencepiece": {
        "long field": of(b"\x0a\xff\xff\xff\xff\x0f" + b"a" * 100),
        "deep": of(b"\x0b" * 100_000),
    },
    "manifest": {
        "deep": of(b"[" * 100_000),
        "rule": of(b'{"corpus": "a", "task": "b", "word_rule": "os.system"}'),
    },
    "text": {  # of more work than its length, to who looks back for each of these
        "dots": of(b"." * 1_500_000),
        "abbreviations": of(b"e.g. " * 300_000),
        "marks": of(b"! " * 700_000),
        "words": of(b"a " * 700_000),
    },
}


def files_of(kind):
    """Return the files of a kind by name."""
    return ANY | FILES[kind]
