"""Archives made of ``{name: content}``, as bytes."""

import gzip
import io
import tarfile
import zipfile


def tarred(files, compression=""):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{compression}") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def gzipped(content):
    return gzip.compress(content, mtime=0)
