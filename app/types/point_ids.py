"""The ids of points: the same text of the same document always gets the same one, so its vector is made once."""

from __future__ import annotations

from uuid import UUID, uuid5

_POINT_NAMESPACE = UUID("6d3c3f0e-6b8a-5f0a-9a53-0d5f6f1c7a11")  # never change it: all points would be new


class PointIds:
    """For the chunks of one document, in their order; a text that comes again is another point."""

    def __init__(self, collection: str, document_id: str) -> None:
        self._prefix = f"{collection}\n{document_id}"
        self._occurrences: dict[int, int] = {}

    def next(self, text_hash: str) -> str:
        # A part of the hash is enough, and takes a third of the memory: two texts that share it get two ids anyway.
        key = int(text_hash[:15], 16)
        occurrence = self._occurrences.get(key, 0)
        self._occurrences[key] = occurrence + 1
        return str(uuid5(_POINT_NAMESPACE, f"{self._prefix}\n{text_hash}\n{occurrence}"))
