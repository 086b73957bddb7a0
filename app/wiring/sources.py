"""Sources of documents: files, rows, URLs and watched folders."""

from __future__ import annotations

from collections.abc import Callable

from app.settings import Settings
from ingest.addresses import is_public
from ingest.rows import RowFields
from ingest.sources import find_changed, find_files, outermost
from ingest.urls import UrlReader
from ingest.watch import FolderWatch

__all__ = ["FolderWatch", "RowFields", "find_changed", "find_files", "is_allowed_address", "outermost", "url_reader"]


def url_reader(settings: Settings) -> UrlReader:
    return UrlReader(is_allowed=is_allowed_address(settings))


def is_allowed_address(settings: Settings) -> Callable[[str], bool]:
    """A predicate: whether the server may contact an IP address (private ones only if the settings allow it)."""
    return _is_any if settings.allow_private_urls else is_public


def _is_any(address: str) -> bool:
    return True
