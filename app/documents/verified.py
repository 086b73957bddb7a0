"""Caches which stored files passed verification. A change of size, time, inode or device invalidates the entry."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from embedder.lru import LRUCache

_KEPT = 200_000  # files, at a hundred bytes each


class Verified:
    def __init__(self) -> None:
        self._known: LRUCache[str, tuple[int, ...]] = LRUCache(_KEPT)

    def holds(self, path: Path, content_hash: str) -> bool:
        """Whether the file has this SHA-256. Reads it only if it changed since the last check. Raises OSError."""
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would block
            return False
        with path.open("rb") as file:
            return self.is_verified(
                file, content_hash, lambda _: hashlib.file_digest(file, "sha256").hexdigest() == content_hash
            )

    def is_verified(self, file: BinaryIO, name: str, check: Callable[[BinaryIO], bool]) -> bool:
        """Whether `check` accepts the file. Calls it only if the file changed since `check` last accepted `name`."""
        before = _signature(os.fstat(file.fileno()))
        if self._known.get(name) == before:
            return True
        file.seek(0)
        is_right = check(file)
        if is_right and _signature(os.fstat(file.fileno())) == before:
            self._known.keep({name: before})
        return is_right

    def is_known(self, found: os.stat_result, name: str) -> bool:
        """Whether a file with this stat result was verified before."""
        return self._known.get(name) == _signature(found)


def _signature(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev
