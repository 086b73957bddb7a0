"""Keeps stored files for the duration of a backup by hard links, so that none is deleted before it is written."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.documents.blobs import FolderBlobStore
from app.errors import FilesUnavailableError

_PREFIX = ".held-"
_STALE_S = 24 * 3600.0  # older folders are left by killed backups


class HeldFiles:
    def __init__(self, source: Path, folder: Path) -> None:
        self._source = source
        self._folder = folder

    def take(self) -> None:
        """Link all files that exist now and are not linked yet."""
        with os.scandir(self._source) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        for name in names:
            if not name.endswith(".part"):
                plain = name.removeprefix(".").removesuffix(".aside")
                with suppress(
                    FileExistsError, FileNotFoundError
                ):  # linked before; deleted or moved aside in the meantime
                    _link(self._source / name, self._folder / plain)

    def file(self, content_hash: str) -> Path:
        return self._folder / content_hash

    @property
    def blobs(self) -> FolderBlobStore:
        """A blob store over the linked files."""
        return FolderBlobStore(self._folder)

    def layout(self, content_hash: str) -> Path:
        return self._folder / f"{content_hash}.layout"


@contextmanager
def holding_files(source: Path) -> Iterator[HeldFiles]:
    """Link all stored files into a temporary folder for the block. Raises FilesUnavailableError."""
    try:
        source.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in source.glob(f"{_PREFIX}*"):
            if time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=source, prefix=_PREFIX))
    except OSError as error:
        raise FilesUnavailableError(f"The folder of stored files {source} cannot be written: {error}.") from error
    try:
        held = HeldFiles(source, folder)
        held.take()
        yield held
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)
