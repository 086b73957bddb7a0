"""Finds evidence in points and files that a row of the catalog was lost or damaged.

Data with such evidence is not garbage and must not be deleted: the row can be restored from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from app.errors import NotFoundError
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import GarbageKind

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

_MOST_POINTS = 16  # points per document whose texts are compared


class Proofs:
    """Evidence for one consistency check. Caches its lookups, so make a new one per check."""

    def __init__(self, *, catalog: SqlCatalog, index: VectorIndex, blobs: BlobStore) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._proven: set[str] = set()  # hashes of files from which points were made

    def has_file(self, index: str, point_ids: Sequence[str]) -> bool:
        """Whether these points were made from a stored file that belongs to no document."""
        if not self.unneeded:
            return False
        payloads = self._index.payloads(index, list(point_ids)[:_MOST_POINTS])
        found = {each for each in self.unneeded if any(self._says(each, payload) for payload in payloads.values())}
        self._proven |= found
        return bool(found)

    def is_of_row(self, content_hash: str) -> bool:
        """Whether the file may be of a damaged row: points were made from it, or it has the size of a missing file."""
        return content_hash in self._proven or self._blobs.byte_count(content_hash) in self._sizes_of_lost

    @cached_property
    def unneeded(self) -> list[str]:
        """Hashes of stored files that belong to no document and are not being added or removed."""
        noted = set(self._catalog.garbage.names(GarbageKind.FILE))
        return [
            each for each in self._blobs.hashes() if each not in noted and not self._catalog.garbage.needs_file(each)
        ]

    @cached_property
    def _sizes_of_lost(self) -> set[int]:
        pages = (
            page for each in self._catalog.collections() for page in self._catalog.consistency.stored_files(each.name)
        )
        files = (file for page in pages for file in page)
        return {file.byte_count for file in files if self._blobs.byte_count(file.content_hash) is None}

    def _says(self, content_hash: str, payload: Mapping[str, object]) -> bool:
        """Whether the extracted text of this file contains the point's passage at the point's offsets."""
        metadata, text = payload.get("metadata"), payload.get("page_content")
        if not isinstance(metadata, Mapping) or not isinstance(text, str):
            return False
        start, end = metadata.get("start"), metadata.get("end")
        if not isinstance(start, int) or not isinstance(end, int):
            return False
        try:
            there = self._blobs.text_window(content_hash, start, end).text
        except NotFoundError:
            return False
        # Passages of tables repeat the column names, so they are longer than the text at their offsets.
        return bool(there.strip()) and (there.strip() in text or text in there)
