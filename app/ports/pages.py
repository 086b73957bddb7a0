"""Ports: images and words of document pages."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from app.types.documents import Document
from app.types.pages import PageView, PageWords


class PageRenderer(Protocol):
    """Pages count from 1. Raises DocumentError with the reason, UnavailableError or FileNotFoundError."""

    def words(self, path: Path, *, media_type: str, page: int) -> PageWords:
        """Words of the text layer; none for images."""
        ...

    def image(self, path: Path, *, media_type: str, page: int, width: int) -> bytes:
        """A JPEG, at most `width` pixels wide."""
        ...


class Pages(Protocol):
    def page(self, document: Document, number: int, *, start: int = 0, end: int = 0) -> PageView:
        """Marks the words of the page within characters [start, end) of the document's text."""
        ...

    def image(self, document: Document, number: int, *, width: int) -> bytes:
        """A JPEG with the next larger width of `IMAGE_WIDTHS`."""
        ...
