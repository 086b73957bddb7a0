"""Temporary folders, cleaned up even after a worker was killed: the next worker removes old ones."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

_LEFT_AFTER_S = 86_400  # longer than any sync takes


@contextmanager
def temporary_folder(parent: Path | None, *, prefix: str) -> Iterator[Path]:
    """A new folder in `parent`, removed after the block. Folders of this prefix that are older than a day are removed
    first. `parent` None: in the system's folder for temporary files, where nothing else is removed."""
    if parent is not None:
        _remove_left(parent, prefix)
    # A killed program may still hold a file open.
    with TemporaryDirectory(dir=parent, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _remove_left(parent: Path, prefix: str) -> None:
    until = time.time() - _LEFT_AFTER_S
    for folder in parent.glob(f"{prefix}*"):
        with suppress(FileNotFoundError):  # another worker removes it, too
            if folder.is_dir() and folder.stat().st_mtime < until:
                shutil.rmtree(folder, ignore_errors=True)
