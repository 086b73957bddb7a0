"""Reads the passages of standing searches' matches from the index."""

from __future__ import annotations

from collections.abc import Sequence

from app.ports.catalog import Catalog
from app.ports.parts import SearchedIndex
from app.types.standing import KeptMatch, News


class NewsReader:
    def __init__(self, catalog: Catalog, index: SearchedIndex) -> None:
        self._catalog = catalog
        self._index = index

    def read(self, collection: str, kept: Sequence[KeptMatch]) -> list[News]:
        """The matches with their texts, in the order of `kept`. Skips deleted passages."""
        if not kept:
            return []
        name = self._catalog.collection(collection).active_index
        payloads = self._index.payloads(name, [each.chunk_id for each in kept])
        return [_news(each, payloads[each.chunk_id]) for each in kept if each.chunk_id in payloads]


def _news(match: KeptMatch, payload: dict[str, object]) -> News:
    metadata = payload["metadata"]
    assert isinstance(metadata, dict)  # as ingestion writes it
    return News(
        chunk_id=match.chunk_id,
        document_id=match.document_id,
        title=str(metadata.get("title", "")),
        uri=str(metadata.get("uri", "")),
        text=str(payload.get("page_content", "")),
        page=metadata.get("page"),
        start=int(metadata.get("start", 0)),
        end=int(metadata.get("end", 0)),
        score=match.score,
        match=match.match,
        matched_at=match.matched_at,
        is_seen=match.is_seen,
    )
