"""Converts points of the index to hits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from app.search.joined_indexes import INDEX_KEY
from app.search.reranking import Candidate
from app.search.retrieval import CHUNK_KEYS, is_by_gircse
from app.types.chunk_text import CONTEXT_KEY, KIND_KEY, PAGE_STARTS_KEY, has_its_hash
from app.types.documents import ChunkKind, Metadata, ScoredPoint
from app.types.file_names import shown_title
from app.types.search import Hit, HitChunk, HitDocument, NearDuplicate

_log = logging.getLogger(__name__)


def points_by_gircse(points: Sequence[ScoredPoint]) -> list[ScoredPoint]:
    """The points that gircse wrote; logs how many others it left out."""
    own = [point for point in points if is_by_gircse(point.payload)]
    if len(own) < len(points):
        _log.warning("%d unmanaged points among the hits were left out", len(points) - len(own))
    return own


def hits_of(candidates: Sequence[Candidate], collections: Mapping[str, str]) -> tuple[Hit, ...]:
    """Numbers candidates as hits, from rank 1. collections: names by physical index; if there are several, each
    point's payload names its index."""
    return tuple(_hit(rank, candidate, collections) for rank, candidate in enumerate(candidates, start=1))


def _hit(rank: int, candidate: Candidate, collections: Mapping[str, str]) -> Hit:
    point = candidate.ranked.point
    return Hit(
        rank=rank,
        score=point.score,
        document=_document(point, collections),
        chunk=_chunk(point),
        legs=candidate.ranked.legs,
        value=candidate.value,
        rerank_score=candidate.rerank_score,
        moved_from=candidate.moved_from,
        excluded=candidate.excluded,
        duplicates=tuple(NearDuplicate(_document(each, collections), _chunk(each)) for each in candidate.duplicates),
    )


def document_id_of(point: ScoredPoint) -> str:
    return str(cast("Mapping[str, object]", point.payload["metadata"])["document_id"])


def _document(point: ScoredPoint, collections: Mapping[str, str]) -> HitDocument:
    metadata = cast("Mapping[str, object]", point.payload["metadata"])
    own = {key: value for key, value in metadata.items() if key not in CHUNK_KEYS}
    return HitDocument(
        id=document_id_of(point),
        title=shown_title(str(metadata["title"]), str(metadata["uri"])),
        uri=str(metadata["uri"]),
        metadata=cast("Metadata", own),
        collection=collections[str(point.payload.get(INDEX_KEY) or next(iter(collections)))],
    )


def _chunk(point: ScoredPoint) -> HitChunk:
    metadata = cast("Mapping[str, object]", point.payload["metadata"])
    return HitChunk(
        id=point.id,
        text=str(point.payload["page_content"]),
        start=cast("int", metadata["start"]),
        end=cast("int", metadata["end"]),
        page=cast("int | None", metadata.get("page")),
        context=str(metadata.get(CONTEXT_KEY, "")),
        kind=_kind(metadata),
        page_starts=_page_starts(metadata),
        is_damaged=not has_its_hash(point.payload),
    )


def _kind(metadata: Mapping[str, object]) -> ChunkKind:
    """Treats an unknown kind, as of a damaged point, as prose: one bad point must not fail the whole search."""
    kind = str(metadata.get(KIND_KEY, ChunkKind.PROSE))
    return ChunkKind(kind) if kind in {known.value for known in ChunkKind} else ChunkKind.PROSE


def damage_notes(hits: Sequence[Hit]) -> list[str]:
    """At most one note, which lists the hits whose stored text differs from the embedded text. Also logs it."""
    damaged = [hit for hit in hits if hit.chunk.is_damaged]
    if not damaged:
        return []
    listed = ", ".join(f"{hit.rank} ({hit.document.uri})" for hit in damaged)
    _log.error("The stored text of hits is damaged: %s", listed)
    return [f"The stored text of these hits is damaged: {listed}. `gircse doctor --rebuild` restores it."]


def _page_starts(metadata: Mapping[str, object]) -> tuple[tuple[int, int], ...]:
    """(start character, page) for each page of the chunk, from its first one. Empty if the chunk is on one page or the
    index does not store page starts."""
    first = cast("int | None", metadata.get("page"))
    further = cast("Sequence[int]", metadata.get(PAGE_STARTS_KEY, ()))
    if first is None or not further:
        return ()
    return ((0, first), *((start, first + number) for number, start in enumerate(further, start=1)))


def on_page_of_sentence(hit: Hit) -> Hit:
    """Sets the chunk's page to the page where the highlighted sentence begins, if there is one."""
    return hit if hit.why is None else replace(hit, chunk=on_page_of(hit.chunk, hit.why.start))


def on_page_of(chunk: HitChunk, start: int) -> HitChunk:
    """Sets the page to that of the character `start` of the chunk's text."""
    if not chunk.page_starts:
        return chunk
    return replace(chunk, page=max(page for begin, page in chunk.page_starts if begin <= start))
