"""Port: a renderer of document pages."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from app.types.pages import PageWords


class PageRenderer(Protocol):
    """Pages count from 1. Raises DocumentError with the reason, UnavailableError or FileNotFoundError."""

    def words(self, path: Path, *, media_type: str, page: int) -> PageWords:
        """Words of the text layer; none for images."""
        ...

    def image(self, path: Path, *, media_type: str, page: int, width: int) -> bytes:
        """A JPEG, at most `width` pixels wide."""
        ...
