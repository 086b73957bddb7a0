"""Lens indexes: the value of every chunk of a collection under a lens, stored with the points."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from app.types.documents import Collection, Job, JobState

# Version of the classification: increase it with changes of embedder/text/relevance.py, embedder/text/mentions.py and
# app/search/value_distributions.py. Lens indexes of an earlier version become unused, and workers rebuild them.
LABELS_VERSION = 2
LABEL_PREFIX = "lens_"
_OF_VECTORS = ("fingerprint", "document_instruction", "document_steps")
UNLABELLED_PAGE = 250  # points per page; small, since other requests to the embedded engine wait for it


class Label(NamedTuple):
    """Selects points by their label, which is `{"value": value, …}` under the payload key `field`."""

    field: str
    value: int


class ValueRow(NamedTuple):
    """A chunk in the table of a collection by value. `value` is OTHER if none fits."""

    value: str
    probability: float  # of the most probable value
    title: str
    uri: str
    page: int | None
    text: str
    document_id: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class LensIndex:
    """A lens index in the catalog. `values` are the lens's, in the syntax of `parse_values`.

    `edition` increases with each change of the values, `revision` whenever chunks may lack labels. `built_index` and
    `built_field` are the physical index and the payload key of the last build; both are empty before the first.
    """

    id: str
    collection: str
    lens: str
    values: tuple[str, ...]
    created_at: datetime
    edition: int = 1
    revision: int = 1
    built_index: str = ""
    built_field: str = ""
    built_at: datetime | None = None
    chunks: int = 0
    seconds: float = 0.0  # duration of the build
    job: Job | None = None  # the last one

    def field_in(self, collection: Collection) -> str:
        """Payload key of the labels under the collection's contract. Each edition has its own key, so that labels of
        different editions cannot be confused."""
        facts = (LABELS_VERSION, self.id, self.edition, *(getattr(collection, name) for name in _OF_VECTORS))
        return f"{LABEL_PREFIX}{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"

    def is_built_for(self, collection: Collection) -> bool:
        return (self.built_index, self.built_field) == (collection.active_index, self.field_in(collection))


class LensIndexState(StrEnum):
    WAITING = "waiting"
    BUILDING = "building"
    READY = "ready"
    STALE = "stale"  # the lens or the collection has changed since
    FAILED = "failed"


_OF_JOBS = {
    JobState.QUEUED: LensIndexState.WAITING,
    JobState.RUNNING: LensIndexState.BUILDING,
    JobState.FAILED: LensIndexState.WAITING,
    JobState.CANCELLED: LensIndexState.STALE,
    JobState.DEAD: LensIndexState.FAILED,
    JobState.DONE: LensIndexState.STALE,
}


@dataclass(frozen=True, slots=True)
class LensIndexStatus:
    """A lens index as shown to users. `bytes`: approximate size of the labels in the vector index."""

    collection: str
    lens: str
    values: tuple[str, ...]
    state: LensIndexState
    progress: float
    chunks: int
    bytes: int
    seconds: float
    created_at: datetime
    built_at: datetime | None
    error: str | None
    job_id: str | None


def state_of(found: LensIndex, *, is_current: bool) -> LensIndexState:
    """Derives the state. is_current: the last build is for the current lens and the current index."""
    job = found.job
    is_open = job is not None and job.state in (JobState.QUEUED, JobState.RUNNING, JobState.FAILED)
    if is_current and not is_open:
        return LensIndexState.READY
    return _OF_JOBS[job.state] if job is not None else LensIndexState.STALE
