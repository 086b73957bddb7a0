"""Where documents come from: files, rows, URLs and watched folders."""

from __future__ import annotations

from ingest.rows import RowFields
from ingest.sources import find_changed, find_files, outermost
from ingest.urls import UrlReader
from ingest.watch import FolderWatch

__all__ = ["FolderWatch", "RowFields", "UrlReader", "find_changed", "find_files", "outermost"]
