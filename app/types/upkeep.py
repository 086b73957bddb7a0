"""Maintenance in a server process besides jobs: fetches of web pages, and reindexing of collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.types.documents import Job

MAX_URLS = 200  # per user and collection, waiting or failed


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job and its document: the uri ("" if the document is gone), the number of chunks, and notes on unread parts."""

    job: Job
    uri: str
    chunk_count: int
    left_out: Sequence[str] = ()


class FetchState(StrEnum):
    WAITING = "waiting"
    FETCHING = "fetching"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Fetch:
    """An address to be fetched into a collection. A fetched one becomes a document; from then on its job has the
    state."""

    url: str
    state: FetchState
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ContractChange:
    """Changes of the contract for a new index. None leaves a field unchanged; the model is always the one in use."""

    document_instruction: str | None = None
    document_steps: int | None = None
    chunk_tokens: int | None = None
    chunk_overlap: int | None = None
    chunk_context: bool | None = None
    chunk_structure: bool | None = None

    def given(self) -> dict[str, str | int]:
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


class ReindexState(StrEnum):
    NONE = "none"
    RUNNING = "running"
    HALF_BUILT = "half built"  # its process ended or failed, or another process runs it; a new start continues it
    DONE = "done"
    FAILED = "failed"  # a new start continues it, too


@dataclass(frozen=True, slots=True)
class ReindexStatus:
    """State of a reindex. `done` of `total` documents are in the new index, whose contract is `contract`."""

    collection: str
    state: ReindexState
    done: int = 0
    total: int = 0
    error: str | None = None
    unreadable: int = 0  # documents missing from the new index because they could not be read
    contract: Mapping[str, str | int] = field(default_factory=dict)
    can_roll_back: bool = False
