"""Opens files of a folder that others may change at the same time."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_CAN_WALK = os.open in os.supports_dir_fd  # False on Windows
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_PASS = getattr(os, "O_PATH", os.O_RDONLY)  # a folder may be entered and not be listed
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a FIFO in the place of the file would block


def open_below(path: Path, root: Path) -> BinaryIO:
    """Opens the file `path` below the folder `root`, an absolute path without links.

    Raises OSError for what is no regular file, and for a link that leads out of the folder, even one that is made at
    this moment: it could lead to a private file.
    """
    target = path.resolve(strict=True)
    if not target.is_relative_to(root):
        raise OSError(errno.ELOOP, f"it is not below {root}", str(path))
    descriptor = _walked(target, root) if _CAN_WALK else os.open(target, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _walked(path: Path, root: Path) -> int:
    """Opens one folder after the other; a link on the way is an error."""
    *folders, name = path.relative_to(root).parts
    folder = os.open(root, _PASS | os.O_DIRECTORY)
    try:
        for each in folders:
            inner = os.open(each, _PASS | os.O_DIRECTORY | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name, os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=folder)
    finally:
        os.close(folder)
