"""Whether something that the catalog does not know is proven by another store, so that a row was lost or damaged.

Nothing that is proven is deleted: it is what the row can be restored by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from app.errors import NotFoundError
from app.ports.ledger import Ledger
from app.ports.parts import BlobStore, VectorIndex
from app.types.documents import GarbageKind

_MOST_POINTS = 16  # of a document, whose texts are looked for


class Proofs:
    """Of one comparison: what it has looked up it remembers."""

    def __init__(self, *, catalog: Ledger, index: VectorIndex, blobs: BlobStore) -> None:
        self._catalog = catalog
        self._index = index
        self._blobs = blobs
        self._proven: set[str] = set()  # hashes of files that points were made of

    def has_file(self, index: str, point_ids: Sequence[str]) -> bool:
        """Whether a kept file that no document has is what these points were made of."""
        if not self.unneeded:
            return False
        payloads = self._index.payloads(index, list(point_ids)[:_MOST_POINTS])
        found = {each for each in self.unneeded if any(self._says(each, payload) for payload in payloads.values())}
        self._proven |= found
        return bool(found)

    def is_of_row(self, content_hash: str) -> bool:
        """Whether points were made of this file, or a row that names a file which is not there may mean it."""
        return content_hash in self._proven or self._blobs.byte_count(content_hash) in self._sizes_of_lost

    @cached_property
    def unneeded(self) -> list[str]:
        """Hashes of files that no document has, and that are not on their way in or out."""
        noted = set(self._catalog.reserved_names(GarbageKind.FILE))
        return [each for each in self._blobs.hashes() if each not in noted and not self._catalog.needs_file(each)]

    @cached_property
    def _sizes_of_lost(self) -> set[int]:
        pages = (page for each in self._catalog.collections() for page in self._catalog.stored_files(each.name))
        files = (file for page in pages for file in page)
        return {file.byte_count for file in files if self._blobs.byte_count(file.content_hash) is None}

    def _says(self, content_hash: str, payload: Mapping[str, object]) -> bool:
        """Whether the text of this file has the passage where the point says that it stands."""
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
        # A part of a table has its names once more, so that its text is not what stands there.
        return bool(there.strip()) and (there.strip() in text or text in there)
