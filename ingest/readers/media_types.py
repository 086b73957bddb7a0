"""Which media type the name of a file stands for. Knows no parser, so that whoever only lists files loads none."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from app.errors import DocumentError

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

SUFFIXES = {
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
    ".docx": DOCX,
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".xlsx": XLSX,
}


def media_type_of(uri: str) -> str:
    """The media type that the suffix of a path, file name or URL stands for. Raises DocumentError for others."""
    suffix = path_of(uri).suffix
    media_type = SUFFIXES.get(suffix.lower())
    if media_type is None:
        what = f"Files ending in {suffix!r}" if suffix else "Files without a suffix"
        raise DocumentError(f"{what} cannot be read. Known suffixes: {', '.join(SUFFIXES)}.")
    return media_type


def path_of(uri: str) -> PurePosixPath:
    path = unquote(urlsplit(uri).path) if "://" in uri else uri.replace("\\", "/")
    return PurePosixPath(path)
