"""Published data sets: folders and archives from ``{name: content}``, and reading results."""

import gzip
import io
import tarfile
import zipfile


def tarred(files, compression=""):
    """Return a tar of ``{name or TarInfo: content}``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{compression}") as tar:
        for name, content in files.items():
            member = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
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


def write_folder(folder, files):
    """Write the files under ``folder``."""
    for name, content in _in_bytes(files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_archive(path, files):
    """Write an archive; its suffix selects zip, tar.gz (tgz) or gz."""
    files = _in_bytes(files)
    if path.suffix == ".zip":
        path.write_bytes(zipped(files))
    elif path.name.endswith((".tar.gz", ".tgz")):
        path.write_bytes(tarred(files, "gz"))
    else:
        (content,) = files.values()
        path.write_bytes(gzipped(content))
    return path


def tree(folder):
    """Return the contents of all visible files."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not f"/{path.relative_to(folder)}".count("/.")
    }


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def _in_bytes(files):
    return {
        name: content.encode() if isinstance(content, str) else content
        for name, content in files.items()
    }
