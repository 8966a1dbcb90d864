"""Files other than checkpoints that would run code, crash, hang or fill the memory.

``files_of(kind)[name](path, canary)`` makes one at ``path``, where a good one may lie; the file
``canary`` must not appear when it is read.
"""

import os
import pickle
import struct

from hostile_checkpoints import touch


def of(content):
    """A file with other contents, bytes or what makes them of the good ones and the canary."""

    def write(path, canary):
        good = path.read_bytes() if path.is_file() else b""
        path.unlink(missing_ok=True)
        path.write_bytes(content(good, canary) if callable(content) else content)

    return write


def endless(path, canary):
    """Of a size that no memory has, though it takes no disk."""
    of(b"")(path, canary)
    os.truncate(path, 1 << 40)


def in_its_place(make):
    """No file at all."""

    def write(path, canary):
        path.unlink(missing_ok=True)
        make(path)

    return write


def field(offset, form, value):
    """An index with another number in one place."""
    return of(lambda good, _: good[:offset] + struct.pack(form, value) + good[offset + 8 :])


ANY = {
    "nothing": of(b""),
    "bytes": of(bytes(range(256)) * 40),
    "pickle": of(lambda good, canary: pickle.dumps(touch(canary), protocol=0)),
    "endless": endless,
    "folder": in_its_place(os.mkdir),
    "fifo": in_its_place(os.mkfifo),
    "device": in_its_place(lambda path: path.symlink_to("/dev/zero")),
}
HEADER = 18  # bytes of MMapIndexedDataset's, the last eight of which are the number of rows
FILES = {
    "vectors": {
        "width": of(b"2 1000000000000\na 1 2\nb 1 2\n"),
        "long": of(b"1 12\na" + b" 1" * 5_000_000 + b"\n"),
        "digits": of(b"1 12\na " + b"9" * 5000 + b" 1" * 11 + b"\n"),
        "nan": of(b"1 12\na" + b" nan" * 12 + b"\n"),
        "ragged": of(b"2 12\na" + b" 1" * 12 + b"\nb 1\n"),
    },
    "dictionary": {
        "count": of(b"a " + b"9" * 5000 + b"\n"),
        "columns": of(b"a\nb\n"),
        "twice": of(b"a 1\na 1\n"),
        "code": of(b"a __import__('os').system('touch canary')\n"),
        "latin": of(b"\xe9 1\n"),
    },
    "index": {
        "name": of(lambda good, _: b"MMIDIDY" + good[7:]),
        "other kind": of(lambda good, _: b"TNTIDX\0\0" + good[8:]),
        "type": of(lambda good, _: good[:17] + b"\xff" + good[18:]),
        "rows": field(HEADER, "<Q", 1 << 62),
        "negative rows": field(HEADER, "<q", -1),
        "negative size": field(HEADER + 8, "<q", -1),
        "size": field(HEADER + 8, "<q", 0x7FFFFFFF),
        "beyond": of(lambda good, _: good[:-8] + struct.pack("<q", 1 << 40)),
        "before": of(lambda good, _: good[:-8] + struct.pack("<q", -(1 << 40))),
        "short": of(lambda good, _: good[:-3]),
    },
    "numbers": {
        "short": of(lambda good, _: good[:-1]),
        "beyond": of(lambda good, _: b"\xff" * len(good)),
    },
    "codes": {
        "columns": of(b"#version: 0.2\na b c d\n"),
        "version": of(b"#version: 9999999999.x\na b\n"),
    },
    "sentencepiece": {
        "long field": of(b"\x0a\xff\xff\xff\xff\x0f" + b"a" * 100),
        "deep": of(b"\x0b" * 100_000),
    },
    "manifest": {
        "deep": of(b"[" * 100_000),
        "list": of(b"[]"),
        "rule": of(b'{"corpus": "a", "task": "b", "word_rule": "os.system"}'),
        "no rule": of(b'{"corpus": "a", "task": "b", "word_rule": null}'),
        "number": of(b"9" * 5000),
    },
    "text": {  # of more work than its length, to who looks back for each of these
        "dots": of(b"." * 1_500_000),
        "abbreviations": of(b"e.g. " * 300_000),
        "marks": of(b"! " * 700_000),
        "words": of(b"a " * 700_000),
    },
    "parquet": {"footer": of(b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1")},
    "result": {
        "deep": of(b"[" * 100_000),
        "rows": of(b'{"rows": [1, null]}'),
        "number": of(b'{"rows": ' + b"9" * 5000 + b"}"),
    },
    "scores": {"digits": of(b"1\t" + b"9" * 5000 + b"\n")},
}


def files_of(kind):
    """Those of a kind by name; text may come through a FIFO."""
    files = ANY | FILES[kind]
    return {
        name: write
        for name, write in files.items()
        if name != "fifo" or kind not in ("text", "scores")
    }
