"""Writes several files of the blob store together: to temporary names, then syncs them, then renames them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from app.documents.kept_texts import write_text
from app.documents.layouts import is_empty, layout_bytes
from app.documents.verified import Verified
from app.errors import DamagedFileError, FilesUnavailableError, full_disk_reason, is_full_disk
from app.types.documents import StoredBytes
from app.types.texts import TextLayout

_PIECE_BYTES = 1 << 20
_FEW_FILES = 16  # up to this number, files are synced one by one
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NotAHashError(DamagedFileError, ValueError):
    pass


class FolderBlobBatch:
    """Files written under temporary names. `keep` syncs and renames all of them; `clear` removes the rest."""

    def __init__(self, folder: Path, verified: Verified) -> None:
        self._folder = folder
        self._verified = verified
        self._written: dict[str, Path] = {}  # final name → temporary file
        self._temporaries: set[Path] = set()
        self._emptied: set[str] = set()  # names of layouts that became empty; their files are removed

    def put_file(self, file: BinaryIO) -> StoredBytes:
        stored = _hashed(_pieces(file))  # hash before writing: most files of a folder are stored already
        if not self._has(stored):
            stored = self._write(file)
        return stored

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None:
        name = text_name(content_hash)
        with errors_translated(self._folder / name):
            temporary, file = self._new_file()
            with file:
                write_text(file, parts)
        self._written[name] = temporary

    def put_layout(self, content_hash: str, layout: TextLayout) -> None:
        name = layout_name(content_hash)
        if is_empty(layout):
            self._written.pop(name, None)
            self._emptied.add(name)
            return
        with errors_translated(self._folder / name):
            temporary, file = self._new_file()
            with file:
                file.writelines(layout_bytes(layout))
        self._written[name] = temporary
        self._emptied.discard(name)

    def keep(self) -> None:
        if not (self._written or self._emptied):
            return
        with errors_translated(self._folder / next(iter((*self._written, *self._emptied)))):
            _sync_files(self._folder, self._written.values())
            for name, temporary in self._written.items():
                temporary.replace(self._folder / name)
                self._temporaries.discard(temporary)
            for name in self._emptied:
                (self._folder / name).unlink(missing_ok=True)
            _sync_folder(self._folder)
        self._written.clear()
        self._emptied.clear()

    def clear(self) -> None:
        """Remove the temporary files that `keep` has not renamed."""
        for temporary in self._temporaries:
            temporary.unlink(missing_ok=True)

    def _has(self, stored: StoredBytes) -> bool:
        """Whether the file is stored and undamaged. A damaged one counts as missing, so that it is written again."""
        if stored.content_hash in self._written:
            return True
        path = self._folder / stored.content_hash
        return path.exists() and self._verified.holds(path, stored.content_hash)

    def _write(self, file: BinaryIO) -> StoredBytes:
        with errors_translated(self._folder / "a new file"):
            temporary, target = self._new_file()
        try:
            # Hash the bytes that are written: the file may have changed since it was hashed.
            stored = self._copied(file, target)
        finally:
            with errors_translated(self._folder / "a new file"):
                target.close()  # flushes, so it can fail, too
        self._written.setdefault(stored.content_hash, temporary)
        return stored

    def _new_file(self) -> tuple[Path, BinaryIO]:
        temporary, file = temporary_in(self._folder)
        self._temporaries.add(temporary)
        return temporary, file

    def _copied(self, file: BinaryIO, target: BinaryIO) -> StoredBytes:
        """Copy and hash the file. Only errors of writing become FilesUnavailableError; errors of reading pass."""

        def written() -> Iterator[bytes]:
            for piece in _pieces(file):
                with errors_translated(self._folder / "a new file"):
                    target.write(piece)
                yield piece

        return _hashed(written())


def text_name(content_hash: str) -> str:
    return f"{checked(content_hash)}.txt"


def layout_name(content_hash: str) -> str:
    return f"{checked(content_hash)}.layout"


def temporary_in(folder: Path) -> tuple[Path, BinaryIO]:
    try:
        descriptor, name = _mkstemp(folder)
    except FileNotFoundError:  # the folder does not exist before the first file
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = _mkstemp(folder)
    return Path(name), os.fdopen(descriptor, "wb")


def _mkstemp(folder: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _hashed(pieces: Iterator[bytes]) -> StoredBytes:
    digest, byte_count = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        byte_count += len(piece)
    return StoredBytes(digest.hexdigest(), byte_count)


def _sync_files(folder: Path, files: Collection[Path]) -> None:
    """Sync files to disk: many by one `syncfs` for the file system (Linux only), a few one by one."""
    sync = _file_system_sync()
    if len(files) <= _FEW_FILES or sync is None:
        for file in files:
            _sync(file, os.O_RDWR)
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if sync(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)


@cache
def _file_system_sync() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def _sync_folder(folder: Path) -> None:
    """Make renames in the folder durable. Windows has no such call."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checked(content_hash: str) -> str:
    if not _SHA256.fullmatch(content_hash):  # the hash becomes part of a path
        raise NotAHashError(
            f"{content_hash!r} is not a SHA-256 in lower-case hexadecimal, so the catalog row with this file name is "
            "damaged. `gircse doctor` says how to restore the catalog."
        )
    return content_hash


@contextmanager
def errors_translated(path: Path) -> Iterator[None]:
    """Turn OSError into FilesUnavailableError, since a retry may succeed. FileNotFoundError passes unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_full_disk(error):
            raise FilesUnavailableError(full_disk_reason(path.parent)) from error
        raise FilesUnavailableError(
            f"In the folder of stored files {path.parent}, {path.name[:12]} cannot be accessed: "
            f"{error.strerror or error}. Check that its disk is mounted and writable."
        ) from error
