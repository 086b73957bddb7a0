"""Keeps original bytes under their SHA-256 in one folder, and extracted text beside them.

A file is complete or absent: it is written under another name, synced and renamed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import FilesUnavailableError, NotFoundError

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FolderBlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        content_hash = hashlib.sha256(data).hexdigest()
        path = self.path(content_hash)
        if not path.exists():
            _write_whole(path, data)
        return content_hash

    def get(self, content_hash: str) -> bytes:
        return _read(self.path(content_hash), content_hash)

    def path(self, content_hash: str) -> Path:
        return self._folder / _checked(content_hash)

    def put_text(self, content_hash: str, text: str) -> None:
        _write_whole(self._text_path(content_hash), text.encode("utf-8", "surrogatepass"))

    def get_text(self, content_hash: str) -> str:
        return _read(self._text_path(content_hash), content_hash).decode("utf-8", "surrogatepass")

    def _text_path(self, content_hash: str) -> Path:
        return self._folder / f"{_checked(content_hash)}.txt"


def _checked(content_hash: str) -> str:
    if not _SHA256.fullmatch(content_hash):  # it becomes part of a path
        raise ValueError(f"Not a SHA-256 in lower-case hexadecimal: {content_hash!r}.")
    return content_hash


def _write_whole(path: Path, data: bytes) -> None:
    with _faults_translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:8]}.", suffix=".part")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _read(path: Path, content_hash: str) -> bytes:
    try:
        with _faults_translated(path):
            return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"The stored file {content_hash} is missing from {path.parent}: add the document again."
        ) from error


@contextmanager
def _faults_translated(path: Path) -> Iterator[None]:
    """What the disk refuses now it may grant later; a file that is not there is another matter."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FilesUnavailableError(
            f"The folder of stored files {path.parent} refuses {path.name[:12]}…: {error.strerror or error}. "
            "Check that its disk is there, writable and not full."
        ) from error
