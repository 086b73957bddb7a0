"""What goes on in a serving process besides jobs: web pages being fetched, a collection being indexed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.types.documents import Job

MAX_URLS = 200  # of a collection, waiting or failed


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job, and what became of its document: its uri, or "" when it is gone, its chunks, and what was left out."""

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
    """An address on its way into a collection. Once it is fetched it is a document, and its job tells the rest."""

    url: str
    state: FetchState
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ContractChange:
    """What a new index is to be made with. None leaves a field as it is; the model is always the one in use."""

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
    HALF_BUILT = "half built"  # its process ended or failed, or it is another one's: starting again goes on
    DONE = "done"
    FAILED = "failed"  # what was built stays, too


@dataclass(frozen=True, slots=True)
class ReindexStatus:
    """`done` of `total` documents are in the index that is being built, which `contract` says more of."""

    collection: str
    state: ReindexState
    done: int = 0
    total: int = 0
    error: str | None = None
    unreadable: int = 0  # documents that the new index lacks, since they could not be read
    contract: Mapping[str, str | int] = field(default_factory=dict)
    can_roll_back: bool = False
