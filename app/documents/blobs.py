"""Stores original files under their SHA-256 in one folder, with extracted texts and layouts beside them.

A file is complete or absent: it is written to a temporary name, synced and renamed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from app.documents.blob_batch import FolderBlobBatch, checked, errors_translated, layout_name, temporary_in, text_name
from app.documents.kept_texts import has_digest, is_whole_text, read_text, read_window, text_pieces
from app.documents.layouts import is_whole_layout, read_layout
from app.documents.verified import Verified
from app.errors import DamagedFileError, FilesUnavailableError, NotFoundError
from app.types.documents import StoredBytes, TextWindow
from app.types.texts import TextLayout

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
    def batch(self) -> Iterator[FolderBlobBatch]:
        batch = FolderBlobBatch(self._folder, self._verified)
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
        except (NotFoundError, OSError):  # deleted in the meantime, or unreadable
            return False

    def is_changed(self, content_hash: str, byte_count: int) -> bool:
        try:
            found = self.locate(content_hash).stat()
        except (NotFoundError, FileNotFoundError):
            return True
        return found.st_size != byte_count or not self._verified.is_known(found, content_hash)

    def byte_count(self, content_hash: str) -> int | None:
        """The size of the file; None if it is missing."""
        try:
            return self.locate(content_hash).stat().st_size
        except (NotFoundError, FileNotFoundError):
            return None

    def has_text(self, content_hash: str) -> bool:
        path = self._text_path(content_hash)
        return path.exists() or _aside(path).exists()

    def is_text_sound(self, content_hash: str) -> bool:
        text, layout = self._text_path(content_hash), self._layout_path(content_hash)
        try:
            with _opened(text, content_hash) as file:
                is_sound = self._verified.is_verified(file, text.name, is_whole_text)
            with suppress(NotFoundError), _opened(layout, content_hash) as file:
                is_sound = is_sound and self._verified.is_verified(file, layout.name, is_whole_layout)
        except (NotFoundError, FilesUnavailableError):  # deleted in the meantime, or unreadable
            return False
        return is_sound

    def has_text_digest(self, content_hash: str) -> bool:
        try:
            with _opened(self._text_path(content_hash), content_hash) as file:
                return has_digest(file)
        except NotFoundError:
            return False

    def verified(self, content_hash: str) -> Path:
        path = self.locate(content_hash)
        with errors_translated(path):
            if not self._verified.holds(path, content_hash):
                raise _altered(content_hash)
        return path

    def put_parts(self, content_hash: str, parts: Iterable[bytes]) -> None:
        _write_whole(self.path(content_hash), _verified_parts(parts, content_hash))

    def get(self, content_hash: str) -> bytes:
        with _opened(self.path(content_hash), content_hash) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != content_hash:
            raise _altered(content_hash)
        return data

    def discard(self, content_hash: str, *, is_needed: Callable[[], bool]) -> None:
        # Move the files aside before asking `is_needed`: a document added later finds its file missing and stores it
        # again.
        kept = [self.path(content_hash), self._text_path(content_hash), self._layout_path(content_hash)]
        with errors_translated(kept[0]):
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
        return self._folder / checked(content_hash)

    def locate(self, content_hash: str) -> Path:
        path = self.path(content_hash)
        with errors_translated(path):
            for place in (path, _aside(path), path):  # a concurrent `discard` may move it back in between
                if place.exists():
                    return place
        raise _missing(path, content_hash)

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None:
        with self.batch() as batch:
            batch.put_text(content_hash, parts)

    def get_text(self, content_hash: str) -> str:
        with self._opened_text(content_hash) as file:
            return read_text(file)

    def text_window(self, content_hash: str, start: int, end: int) -> TextWindow:
        with self._opened_text(content_hash) as file:
            return read_window(file, start, end)

    def text_bytes(self, content_hash: str) -> Iterator[bytes]:
        with self._opened_text(content_hash) as file:
            yield from text_pieces(file)

    def put_layout(self, content_hash: str, layout: TextLayout) -> None:
        with self.batch() as batch:
            batch.put_layout(content_hash, layout)

    def layout(self, content_hash: str, start: int, end: int) -> TextLayout:
        path = self._layout_path(content_hash)
        try:
            with _opened(path, content_hash) as file:
                if not self._verified.is_verified(file, path.name, is_whole_layout):
                    raise _damaged(path)
                return read_layout(file, start, end)
        except DamagedFileError:
            raise
        except NotFoundError:
            return TextLayout()

    def get_layout(self, content_hash: str) -> bytes:
        path = self._layout_path(content_hash)
        with _opened(path, content_hash) as file:
            data = file.read()
            if not is_whole_layout(BytesIO(data)):
                raise _damaged(path)
            return data

    def put_layout_bytes(self, content_hash: str, parts: Iterable[bytes]) -> None:
        _write_whole(self._layout_path(content_hash), parts)

    @contextmanager
    def _opened_text(self, content_hash: str) -> Iterator[BinaryIO]:
        path = self._text_path(content_hash)
        with _opened(path, content_hash) as file:
            try:
                yield file
            except ValueError as error:  # the file is damaged
                raise _damaged(path) from error

    def _layout_path(self, content_hash: str) -> Path:
        return self._folder / layout_name(content_hash)

    def _text_path(self, content_hash: str) -> Path:
        return self._folder / text_name(content_hash)


def _verified_parts(parts: Iterable[bytes], content_hash: str) -> Iterator[bytes]:
    """The same parts. Raises DamagedFileError at their end if they have another hash."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        yield part
    if digest.hexdigest() != content_hash:
        raise DamagedFileError(f"A file has the name {content_hash}, but another content: it was altered.")


def _write_whole(path: Path, parts: Iterable[bytes]) -> None:
    with errors_translated(path):
        temporary, file = temporary_in(path.parent)
        try:
            with file:
                file.writelines(parts)
                file.flush()
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


@contextmanager
def _opened(path: Path, content_hash: str) -> Iterator[BinaryIO]:
    for place in (path, _aside(path), path):  # a concurrent `discard` may move it aside or back in between
        try:
            with errors_translated(place):
                file = place.open("rb")
        except FileNotFoundError:
            continue
        with file, errors_translated(place):
            yield file
        return
    raise _missing(path, content_hash)


def _missing(path: Path, content_hash: str) -> NotFoundError:
    return NotFoundError(
        f"The stored file {content_hash} is missing from {path.parent}. Add the document again, or restore the file "
        "from a backup: `gircse restore FILE --files`."
    )


def _altered(content_hash: str) -> DamagedFileError:
    return DamagedFileError(
        f"The stored file {content_hash} is damaged: it was cut or altered. Add the document again, or restore it "
        "from a backup: `gircse restore FILE --files`."
    )


def _damaged(path: Path) -> DamagedFileError:
    return DamagedFileError(
        f"The file {path} with the extracted text or layout of a document is damaged: it was cut or altered. "
        "`gircse doctor --rebuild` creates it again."
    )
