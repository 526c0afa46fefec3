"""The folders that requests name, and the files that are written into them."""
import contextlib
import errno
import os
import shutil
import uuid

from bodies import Problem


def aside(folder):
    return folder.with_name(folder.name + ".previous")


@contextlib.contextmanager
def replacing(folder):
    """A temporary folder that takes the place of `folder` once it is whole."""
    temporary = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        if folder.exists():
            shutil.rmtree(aside(folder), ignore_errors=True)
            folder.rename(aside(folder))
        temporary.rename(folder)
    except BaseException as error:
        room = _room_at(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Problem(507, f"Cannot write to {folder}: the disk is full or has a limit.{room} Free some, and continue with the training.",
                          "disk_full") from error
        raise
    shutil.rmtree(aside(folder), ignore_errors=True)


def _room_at(folder):
    """A sentence about the disk; nothing where the disk does not tell, because the error of the caller matters more."""
    try:
        there = next(place for place in folder.parents if place.exists())
        return f" {shutil.disk_usage(there).free // 2**20} MiB are free there."
    except OSError:
        return ""


class PatientFile:
    """A file for `torch.save`, which ends the process when it cannot write: the error is raised by `finish`."""

    def __init__(self, file):
        self.file, self.error = file, None

    def write(self, data):
        try:
            if self.error is None:
                self.file.write(data)
        except OSError as error:
            self.error = error
        return len(data)

    def flush(self):
        pass

    def finish(self):
        if self.error:
            raise self.error
        self.file.flush()
        os.fsync(self.file.fileno())
