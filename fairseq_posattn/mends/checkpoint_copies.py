"""A run that is killed while it copies a checkpoint: fairseq leaves half of one in its place."""

from fairseq.file_io import PathManager

from fairseq_posattn.mends.patching import patch


def apply():
    patch(PathManager, "copy", _copy_whole_or_not)


def _copy_whole_or_not(copy):
    """fairseq writes a checkpoint under another name first, but copies it straight to its place."""

    def copy_and_rename(src_path, dst_path, overwrite=False):
        if not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        copied = copy(src_path, dst_path + ".tmp", overwrite=True)
        if copied:
            PathManager.rename(dst_path + ".tmp", dst_path)
        return copied

    return copy_and_rename
