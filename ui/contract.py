"""What the page is given from outside: frozen values and protocols. Knows neither Gradio nor any implementation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.search_types import SearchRequest, SearchResult
from app.types import Document

AddFiles = Callable[[str, list[Path]], list[Document]]
"""(collection, files) -> the documents that were queued. Raises GircseError."""


@dataclass(frozen=True, slots=True)
class Preset:
    """An instruction under a short name; `instruction` "" means none."""

    name: str
    instruction: str


@dataclass(frozen=True, slots=True)
class Example:
    """A search to try with one click."""

    query: str
    instruction: str


@dataclass(frozen=True, slots=True)
class AboutInfo:
    """Shown in the footer."""

    model_name: str
    version: str


class SearchService(Protocol):
    def search(self, request: SearchRequest, /) -> SearchResult:
        """Raises GircseError when the request cannot be answered."""
        ...
