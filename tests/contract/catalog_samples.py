"""Values and steps that the tests of the catalog share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from app.catalog import SqlCatalog
from app.types.documents import Chunk, Collection, Job, NewDocument

LEASE = timedelta(seconds=30)
LIBRARY = Collection("library", "model-1", 3, "", 5, 200, 30, "library--1")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


def new_document(uri: str = "a.txt", *, content: str = "a", **changes: object) -> NewDocument:
    document = NewDocument(uri, f"Title of {uri}", "text/plain", content * 64, 10, {"year": 1999, "kind": "note"})
    return replace(document, **changes)  # type: ignore[arg-type]


def new_chunk(document_id: str, ordinal: int = 0) -> Chunk:
    return Chunk(f"{document_id[:-4]}{ordinal:04}", document_id, ordinal, "text", "f" * 64, 0, 4, 1)


def claimed(catalog: SqlCatalog, owner: str = "worker-1") -> Job:
    job = catalog.claim(owner, lease=LEASE)
    assert job is not None
    return job
