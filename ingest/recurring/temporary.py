"""Temporary folders that a worker which was killed leaves behind, and the next one removes."""

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
    """`parent` None: the system's own. What is there of this prefix since a day is removed."""
    if parent is not None:
        _remove_left(parent, prefix)
    # A program that was just ended may still hold a file.
    with TemporaryDirectory(dir=parent, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _remove_left(parent: Path, prefix: str) -> None:
    until = time.time() - _LEFT_AFTER_S
    for each in parent.glob(f"{prefix}*"):
        with suppress(FileNotFoundError):  # another worker is at it, too
            if each.is_dir() and each.stat().st_mtime < until:
                shutil.rmtree(each, ignore_errors=True)
