"""Metadata in a file beside a document: `paper.pdf.meta.json` holds title and metadata of `paper.pdf`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from app.errors import DocumentError
from app.types.documents import Metadata, MetadataValue
from app.types.files_below import open_below

SUFFIX = ".meta.json"
_MAX_BYTES = 1_000_000
_EXAMPLE = '{"title": "…", "metadata": {"year": 2024}}'


def sidecar_of(file: Path) -> Path:
    return file.with_name(file.name + SUFFIX)


def described_by(path: Path) -> Path | None:
    """The file that the sidecar `path` describes; None when its name is not that of a sidecar."""
    name = path.name.removesuffix(SUFFIX)
    return path.with_name(name) if name not in ("", path.name) else None


def read_sidecar(file: Path, root: Path) -> tuple[str, Metadata]:
    """Title and metadata from the sidecar of `file`, below the folder `root`; empty if it has none. Raises
    DocumentError for an invalid sidecar, and OSError."""
    sidecar = sidecar_of(file)
    if not os.path.lexists(sidecar):  # False also if the longer name is too long for the disk
        return "", {}
    if sidecar.is_symlink():  # it could expose any JSON file of this machine
        raise _refused(sidecar, "it is a link; put a file in its place")
    if not sidecar.is_file():
        return "", {}
    with open_below(sidecar, root) as opened:
        data = opened.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise _refused(sidecar, f"it has more than {_MAX_BYTES:,} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 raise a ValueError, too
        raise _refused(sidecar, f"it is not JSON ({error})") from None
    if not isinstance(content, dict) or content.keys() - {"title", "metadata"}:
        raise _refused(sidecar, f"write it as {_EXAMPLE}")
    return _title(sidecar, content.get("title")), _metadata(sidecar, content.get("metadata"))


def _title(sidecar: Path, title: Any) -> str:
    if title is None:
        return ""
    if not isinstance(title, str):
        raise _refused(sidecar, f"its title must be a text, not {title!r}")
    return title


def _metadata(sidecar: Path, metadata: Any) -> dict[str, MetadataValue]:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise _refused(sidecar, f"its metadata must be an object, as in {_EXAMPLE}")
    for key, value in metadata.items():
        if not isinstance(value, MetadataValue):
            raise _refused(sidecar, f"its metadata {key!r} must be a text, a number, true or false, not {value!r}")
    return metadata


def _refused(sidecar: Path, reason: str) -> DocumentError:
    return DocumentError(f"Its sidecar {sidecar.name} cannot be used: {reason}.")
