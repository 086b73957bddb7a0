"""What travels between the driver and the nodes: documents there, and back what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.types.documents import Chunk, Document, Metadata


@dataclass(frozen=True, slots=True)
class Work:
    """A document to be indexed, and the job that it is done for."""

    job_id: str
    document: Document


@dataclass(frozen=True, slots=True)
class IndexedChunks:
    """Of an indexed document the next chunks, without their texts."""

    job_id: str
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """Comes after its chunks: all of it is in the index."""

    job_id: str
    title: str
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """Why the document cannot be indexed; trying again helps unless the error is its own.

    With `is_missing` its stored file is not there, or the node does not see it.
    """

    job_id: str
    reason: str
    is_its_own: bool
    is_missing: bool = False


Result = IndexedChunks | IndexedDocument | FailedDocument
