"""Keeps original bytes under their SHA-256 in one folder, and extracted text beside them.

A file is complete or absent: it is written under another name, synced and renamed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.errors import FilesUnavailableError, NotFoundError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_STORED = re.compile(r"\.?(?P<hash>[0-9a-f]{64})(\.txt)?(\.aside)?")


class FolderBlobStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        content_hash = hashlib.sha256(data).hexdigest()
        path = self.path(content_hash)
        if not path.exists():
            _write_whole(path, [data])
        return content_hash

    def put_parts(self, content_hash: str, parts: Iterable[bytes]) -> None:
        _write_whole(self.path(content_hash), parts)

    def get(self, content_hash: str) -> bytes:
        return _read(self.path(content_hash), content_hash)

    def discard(self, content_hash: str, *, is_needed: Callable[[], bool]) -> None:
        # Put aside before the question that decides: a document added after it finds its bytes gone and puts them back.
        kept = [self.path(content_hash), self._text_path(content_hash)]
        with _faults_translated(kept[0]):
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
        with _faults_translated(path):
            for place in (path, _aside(path), path):  # it may be put back in between
                if place.exists():
                    return place
        raise _missing(path, content_hash)

    def put_text(self, content_hash: str, parts: Iterable[str]) -> None:
        _write_whole(self._text_path(content_hash), (part.encode("utf-8", "surrogatepass") for part in parts))

    def get_text(self, content_hash: str) -> str:
        return _read(self._text_path(content_hash), content_hash).decode("utf-8", "surrogatepass")

    def _text_path(self, content_hash: str) -> Path:
        return self._folder / f"{_checked(content_hash)}.txt"


def _checked(content_hash: str) -> str:
    if not _SHA256.fullmatch(content_hash):  # it becomes part of a path
        raise ValueError(f"Not a SHA-256 in lower-case hexadecimal: {content_hash!r}.")
    return content_hash


def _write_whole(path: Path, parts: Iterable[bytes]) -> None:
    with _faults_translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:8]}.", suffix=".part")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
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


def _read(path: Path, content_hash: str) -> bytes:
    for place in (path, _aside(path)):
        with suppress(FileNotFoundError), _faults_translated(place):
            return place.read_bytes()
    try:
        with _faults_translated(path):
            return path.read_bytes()  # it may have been put back in between
    except FileNotFoundError as error:
        raise _missing(path, content_hash) from error


def _missing(path: Path, content_hash: str) -> NotFoundError:
    return NotFoundError(f"The stored file {content_hash} is missing from {path.parent}: add the document again.")


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
