"""Deterministic point ids: the same text of the same document always gets the same id, so it is embedded only once."""

from __future__ import annotations

from uuid import UUID, uuid5

_POINT_NAMESPACE = UUID("6d3c3f0e-6b8a-5f0a-9a53-0d5f6f1c7a11")  # never change it: all points would get new ids


class PointIds:
    """Generates ids for the chunks of one document, in order. A repeated text gets another id."""

    def __init__(self, collection: str, document_id: str) -> None:
        self._prefix = f"{collection}\n{document_id}"
        self._occurrences: dict[int, int] = {}

    def next(self, text_hash: str) -> str:
        # 60 bits of the hash save two thirds of the memory. A collision is harmless: the id contains the whole hash.
        key = int(text_hash[:15], 16)
        occurrence = self._occurrences.get(key, 0)
        self._occurrences[key] = occurrence + 1
        return str(uuid5(_POINT_NAMESPACE, f"{self._prefix}\n{text_hash}\n{occurrence}"))
