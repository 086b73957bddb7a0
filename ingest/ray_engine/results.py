"""Messages between the driver and the nodes: documents to index, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.types.documents import Chunk, Document, Metadata


@dataclass(frozen=True, slots=True)
class Work:
    """A document to index, and the id of its job."""

    job_id: str
    document: Document


@dataclass(frozen=True, slots=True)
class IndexedChunks:
    """The next chunks of an indexed document, without their texts."""

    job_id: str
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """Follows the last chunks of a document: all its points are in the index."""

    job_id: str
    title: str
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """Why the document cannot be indexed. `is_its_own`: the error lies in the document, so that a retry does not help.

    `is_missing`: its stored file does not exist, or this node cannot see it. `may_succeed`: a limit of the
    server refused it (ServerLimitError).
    """

    job_id: str
    reason: str
    is_its_own: bool
    is_missing: bool = False
    may_succeed: bool = False


Result = IndexedChunks | IndexedDocument | FailedDocument
