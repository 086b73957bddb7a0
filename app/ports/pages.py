"""What shows pages of documents as people see them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from app.types.documents import Document
from app.types.pages import PageView, PageWords


class PageRenderer(Protocol):
    """Pages count from 1. Raises DocumentError with the reason, UnavailableError or FileNotFoundError."""

    def words(self, path: Path, *, media_type: str, page: int) -> PageWords:
        """Of the text layer; a picture has none."""
        ...

    def image(self, path: Path, *, media_type: str, page: int, width: int) -> bytes:
        """A JPEG, at most so many pixels wide."""
        ...


class Pages(Protocol):
    def page(self, document: Document, number: int, *, start: int = 0, end: int = 0) -> PageView:
        """With those of its words marked that lie in characters [start, end) of the document's text."""
        ...

    def image(self, document: Document, number: int, *, width: int) -> bytes:
        """A JPEG, of the next width of `IMAGE_WIDTHS`."""
        ...
