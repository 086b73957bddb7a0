"""Keeps original bytes under their SHA-256 in one folder, and extracted text beside them.

A file is complete or absent: it is written under another name, synced and renamed.
"""

from __future__ import annotations

import codecs
import ctypes
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from app.collections.layouts import is_empty, layout_bytes, read_layout
from app.collections.verified import Verified
from app.errors import DamagedFileError, FilesUnavailableError, NotFoundError, full_disk_reason, is_full_disk
from app.types.documents import StoredBytes, TextWindow
from app.types.texts import Layout

_PIECE_BYTES = 1 << 20
_FEW_FILES = 16  # so many are synced one by one
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STORED = re.compile(r"\.?(?P<hash>[0-9a-f]{64})(\.txt|\.layout)?(\.aside)?")


class FolderBlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._verified = Verified()

    def put(self, data: bytes) -> str:
        return self.put_file(BytesIO(data)).content_hash

    def put_file(self, file: BinaryIO) -> StoredBytes:
        with self.batch() as batch:
            return batch.put_file(file)

    @contextmanager
    def batch(self) -> Iterator[_Batch]:
        batch = _Batch(self._folder, self._verified)
        try:
            yield batch
            batch.keep()
        finally:
            batch.clear()

    def has(self, content_hash: str) -> bool:
        return self.path(content_hash).exists()

    def is_sound(self, content_hash: str) -> bool:
        try:
            return self._verified.holds(self.locate(content_hash), content_hash)
        except (NotFoundError, OSError):  # it may go at this moment, or be where the disk cannot be read
            return False

    def is_changed(self, content_hash: str, byte_count: int) -> bool:
        try:
            found = self.locate(content_hash).stat()
        except (NotFoundError, FileNotFoundError):
            return True
        return found.st_size != byte_count or not self._verified.is_known(found, content_hash)

    def byte_count(self, content_hash: str) -> int | None:
        """None where the file is missing."""
        try:
            return self.locate(content_hash).stat().st_size
        except (NotFoundError, FileNotFoundError):
            return None

    def has_text(self, content_hash: str) -> bool:
        path = self._text_path(content_hash)
        return path.exists() or _aside(path).exists()

    def verified(self, content_hash: str) -> Path:
        path = self.locate(content_hash)
        with _errors_translated(path):
            if not self._verified.holds(path, content_hash):
                raise _altered(content_hash)
        return path

    def put_parts(self, content_hash: str, parts: Iterable[bytes]) -> None:
        _write_whole(self.path(content_hash), parts)

    def get(self, content_hash: str) -> bytes:
        data = _read(self.path(content_hash), content_hash)
        if hashlib.sha256(data).hexdigest() != content_hash:
            raise _altered(content_hash)
        return data

    def discard(self, content_hash: str, *, is_needed: Callable[[], bool]) -> None:
        # Put aside before the question that decides: a document added after it finds its bytes gone and puts them back.
        kept = [self.path(content_hash), self._text_path(content_hash), self._layout_path(content_hash)]
        with _errors_translated(kept[0]):
            if not is_needed():
                for path in kept:
                    _move_if_there(path, _aside(path))
            still_needed = is_needed()
            for path in kept:
                if still_needed:
                    _move_if_there(_aside(path), path)
                else:
                    _aside(path).unlink(missing_ok=True)

    def hashes(self) -> Iterator[str]:
        if self._folder.exists():
            found = (_STORED.fullmatch(path.name) for path in self._folder.iterdir())
            yield from sorted({match.group("hash") for match in found if match})

    def path(self, content_hash: str) -> Path:
        return self._folder / _checked(content_hash)

    def locate(self, content_hash: str) -> Path:
        path = self.path(content_hash)
        with _errors_translated(path):
            for place in (path, _aside(path), path):  # it may be put back in between
                if place.exists():
                    return place
        raise _missing(path, content_hash)

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None:
        with self.batch() as batch:
            batch.put_text(content_hash, parts)

    def get_text(self, content_hash: str) -> str:
        return _read(self._text_path(content_hash), content_hash).decode("utf-8", "surrogatepass")

    def text_window(self, content_hash: str, start: int, end: int) -> TextWindow:
        path = self._text_path(content_hash)
        with _opened(path, content_hash) as file:
            return _window(file, start, end)

    def put_layout(self, content_hash: str, layout: Layout) -> None:
        path = self._layout_path(content_hash)
        if is_empty(layout):
            with _errors_translated(path):
                path.unlink(missing_ok=True)
        else:  # without a sync: one that is cut short counts as none
            _write_whole(path, layout_bytes(layout), is_durable=False)

    def layout(self, content_hash: str, start: int, end: int) -> Layout:
        path = self._layout_path(content_hash)
        try:
            with _opened(path, content_hash) as file:
                return read_layout(file, start, end)
        except NotFoundError:
            return Layout()

    def get_layout(self, content_hash: str) -> bytes:
        return _read(self._layout_path(content_hash), content_hash)

    def put_layout_bytes(self, content_hash: str, parts: Iterable[bytes]) -> None:
        _write_whole(self._layout_path(content_hash), parts, is_durable=False)

    def _layout_path(self, content_hash: str) -> Path:
        return self._folder / f"{_checked(content_hash)}.layout"

    def _text_path(self, content_hash: str) -> Path:
        return self._folder / _text_name(content_hash)


class _Batch:
    """Files that are written under other names, then synced together, then renamed."""

    def __init__(self, folder: Path, verified: Verified) -> None:
        self._folder = folder
        self._verified = verified
        self._written: dict[str, Path] = {}  # by the name that it gets
        self._temporaries: set[Path] = set()

    def put_file(self, file: BinaryIO) -> StoredBytes:
        stored = _hashed(_pieces(file))  # most files of a folder are there already: reading costs least
        if not self._has(stored):
            stored = self._write(file)
        return stored

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None:
        name = _text_name(content_hash)
        with _errors_translated(self._folder / name):
            temporary, file = self._new_file()
            with file:
                file.writelines(part.encode("utf-8", "surrogatepass") for part in parts)
        self._written[name] = temporary

    def keep(self) -> None:
        if not self._written:
            return
        with _errors_translated(self._folder / next(iter(self._written))):
            _sync_files(self._folder, self._written.values())
            for name, temporary in self._written.items():
                temporary.replace(self._folder / name)
                self._temporaries.discard(temporary)
            _sync_folder(self._folder)
        self._written.clear()

    def clear(self) -> None:
        """Removes what was not kept."""
        for temporary in self._temporaries:
            temporary.unlink(missing_ok=True)

    def _has(self, stored: StoredBytes) -> bool:
        """One that is damaged is written again, which mends it."""
        if stored.content_hash in self._written:
            return True
        path = self._folder / stored.content_hash
        return path.exists() and self._verified.holds(path, stored.content_hash)

    def _write(self, file: BinaryIO) -> StoredBytes:
        with _errors_translated(self._folder / "a new file"):
            temporary, target = self._new_file()
        try:
            # The file may have changed since it was hashed: what counts is what is written.
            stored = self._copied(file, target)
        finally:
            with _errors_translated(self._folder / "a new file"):
                target.close()  # which writes the rest
        self._written.setdefault(stored.content_hash, temporary)
        return stored

    def _new_file(self) -> tuple[Path, BinaryIO]:
        temporary, file = _temporary_in(self._folder)
        self._temporaries.add(temporary)
        return temporary, file

    def _copied(self, file: BinaryIO, target: BinaryIO) -> StoredBytes:
        """An error in reading is the caller's, one in writing ours."""

        def written() -> Iterator[bytes]:
            for piece in _pieces(file):
                with _errors_translated(self._folder / "a new file"):
                    target.write(piece)
                yield piece

        return _hashed(written())


def _text_name(content_hash: str) -> str:
    return f"{_checked(content_hash)}.txt"


def _temporary_in(folder: Path) -> tuple[Path, BinaryIO]:
    try:
        descriptor, name = _mkstemp(folder)
    except FileNotFoundError:  # the first one
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
    """Many files at once by one call for their whole file system, where there is one."""
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
    """Makes the names of its files durable; Windows has no such call."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(content_hash: str) -> str:
    if not _SHA256.fullmatch(content_hash):  # it becomes part of a path
        raise ValueError(f"Not a SHA-256 in lower-case hexadecimal: {content_hash!r}.")
    return content_hash


def _write_whole(path: Path, parts: Iterable[bytes], *, is_durable: bool = True) -> None:
    with _errors_translated(path):
        temporary, file = _temporary_in(path.parent)
        try:
            with file:
                file.writelines(parts)
                file.flush()
                if is_durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.aside")


def _move_if_there(source: Path, target: Path) -> None:
    with suppress(FileNotFoundError):
        source.replace(target)


def _read(path: Path, content_hash: str) -> bytes:
    with _opened(path, content_hash) as file:
        return file.read()


@contextmanager
def _opened(path: Path, content_hash: str) -> Iterator[BinaryIO]:
    for place in (path, _aside(path), path):  # it may be put aside, or back, in between
        try:
            with _errors_translated(place):
                file = place.open("rb")
        except FileNotFoundError:
            continue
        with file, _errors_translated(place):
            yield file
        return
    raise _missing(path, content_hash)


def _window(file: BinaryIO, start: int, end: int) -> TextWindow:
    """Decoded piece by piece: characters have no fixed place in UTF-8."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
    begin, parts = 0, []
    while piece := file.read(_PIECE_BYTES):
        text = decode(piece)
        parts.append(text[max(0, start - begin) : max(0, end - begin)])
        begin += len(text)
    return TextWindow("".join(parts), min(start, begin), begin)


def _missing(path: Path, content_hash: str) -> NotFoundError:
    return NotFoundError(
        f"The stored file {content_hash} is missing from {path.parent}: add the document again, or "
        "`gircse restore FILE --files` puts it back from a backup."
    )


def _altered(content_hash: str) -> DamagedFileError:
    return DamagedFileError(
        f"The stored file {content_hash} is not what was handed in: it was cut or altered. Hand the document in again, "
        "or `gircse restore FILE --files` puts it back from a backup."
    )


@contextmanager
def _errors_translated(path: Path) -> Iterator[None]:
    """What the disk refuses now it may grant later; a file that is not there is another matter."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if is_full_disk(error):
            raise FilesUnavailableError(full_disk_reason(path.parent)) from error
        raise FilesUnavailableError(
            f"The folder of stored files {path.parent} refuses {path.name[:12]}: {error.strerror or error}. "
            "Check that its disk is there and writable."
        ) from error
