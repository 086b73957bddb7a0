"""Lens indexes: the value of every chunk of a collection under one lens, kept with the points."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from app.types.documents import Collection, Job, JobState

# Of how values are read: change it with embedder/text/relevance.py, embedder/text/mentions.py and
# app/search/value_distributions.py. Indexes of an earlier one are not used any more, and workers make them anew.
LABELS_VERSION = 2
LABEL_PREFIX = "lens_"
_OF_VECTORS = ("fingerprint", "document_instruction", "document_steps")
UNLABELLED_PAGE = 250  # points: what others ask of the embedded engine waits for a page


class Label(NamedTuple):
    """What points of one value have: `{"value": value, …}` under the key `field` of their payload."""

    field: str
    value: int


class ValueRow(NamedTuple):
    """A chunk in the table of a collection by value. `value` is OTHER where none fits."""

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
    """As the catalog knows it. `values` are the lens's own, as `parse_values` reads them.

    `edition` grows with each change of the values, `revision` with each reason to look whether all chunks have
    labels. `built_index` and `built_field` name where it was built last: the physical index, and the key in the
    payload of its points; both are empty before that.
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
    seconds: float = 0.0  # that building it took
    job: Job | None = None  # the last one

    def field_in(self, collection: Collection) -> str:
        """Where labels stand under this contract; no two editions ever share one, so none can be taken for another."""
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
    """As people see it. `bytes` are about what the labels take in the vector index."""

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
    """`is_current`: what was built last is of the present lens and the present index."""
    job = found.job
    is_open = job is not None and job.state in (JobState.QUEUED, JobState.RUNNING, JobState.FAILED)
    if is_current and not is_open:
        return LensIndexState.READY
    return _OF_JOBS[job.state] if job is not None else LensIndexState.STALE
