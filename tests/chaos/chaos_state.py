"""What a collection holds, in a form that two runs can be compared by: document ids, which are random, left out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.services import Services
from app.types.documents import Document, DocumentState, JobState, utc_now
from app.vectors.filters import NUMBERS_FIELD
from app.vectors.points import WORDS

_MOST_DOCUMENTS = 10_000
_PAGE = 500
_VECTOR_TOLERANCE = 1e-5  # of float32: texts are batched as the kills left them, which moves the last digits


@dataclass(frozen=True, slots=True)
class StoredPoint:
    id: str
    payload: str  # JSON without the document's id
    vector: np.ndarray
    words: Mapping[int, float]  # the sparse vector


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """`points` in the order of their chunks."""

    fields: str
    chunks: tuple[str, ...]
    points: tuple[StoredPoint, ...]


@dataclass(frozen=True, slots=True)
class State:
    """`faults` are what may not be, whatever other runs hold: orphans, doubles, jobs that are open or dead."""

    documents: Mapping[str, StoredDocument]
    faults: tuple[str, ...]

    @property
    def chunk_count(self) -> int:
        return sum(len(document.chunks) for document in self.documents.values())


def read_state(services: Services, collection: str) -> State:
    catalog = services.catalog
    index = catalog.collection(collection).active_index
    points = _points_by_document(services, index)
    bad = _bad_jobs(services)
    faults = [f"{count} jobs are {state}" for state, count in bad.items()]
    faults += [f"at {utc_now()}: {job}" for state in bad for job in catalog.jobs(state=state)]
    stored = {}
    for document in catalog.documents(collection, limit=_MOST_DOCUMENTS):
        own = points.pop(document.id, [])
        chunks = catalog.chunks(document.id)
        if document.state is not DocumentState.READY:
            faults.append(f"{document.uri} is {document.state}: {document.error}")
        if sorted(point.id for point in own) != sorted(chunk.id for chunk in chunks):
            faults.append(f"{document.uri} has {len(chunks)} chunks and {len(own)} points, or others than its chunks")
        if document.chunk_count != len(chunks):
            faults.append(f"{document.uri} counts {document.chunk_count} chunks and has {len(chunks)}")
        if document.uri in stored:
            faults.append(f"{document.uri} is there twice")
        services.blobs.get(document.content_hash)
        order = {chunk.id: chunk.ordinal for chunk in chunks}
        stored[document.uri] = StoredDocument(
            fields=_fields(document),
            chunks=tuple(f"{c.ordinal} {c.text_hash} {c.start}-{c.end} {c.page}" for c in chunks),
            points=tuple(sorted(own, key=lambda point: order.get(point.id, len(order)))),
        )
    faults += [
        f"{len(orphans)} points of {document_id}, which is no document" for document_id, orphans in points.items()
    ]
    return State(stored, tuple(faults))


def differences(expected: State, found: State) -> list[str]:
    """What an undisturbed run and another one differ in; empty when they hold the same."""
    told = list(found.faults)
    told += [f"{uri} is missing" for uri in sorted(expected.documents.keys() - found.documents.keys())]
    told += [f"{uri} should not be there" for uri in sorted(found.documents.keys() - expected.documents.keys())]
    for uri in sorted(expected.documents.keys() & found.documents.keys()):
        one, other = expected.documents[uri], found.documents[uri]
        if one.fields != other.fields:
            told.append(f"{uri}: {other.fields} instead of {one.fields}")
        if one.chunks != other.chunks:
            told.append(f"{uri}: chunks {other.chunks} instead of {one.chunks}")
        if [point.payload for point in one.points] != [point.payload for point in other.points]:
            told.append(f"{uri}: the payloads of its points differ")
        elif any(_are_apart(*pair) for pair in zip(one.points, other.points, strict=True)):
            told.append(f"{uri}: the vectors of its points differ")
    return told


def _are_apart(one: StoredPoint, other: StoredPoint) -> bool:
    return one.words != other.words or bool(np.abs(one.vector - other.vector).max() > _VECTOR_TOLERANCE)


def _bad_jobs(services: Services) -> dict[JobState, int]:
    counts = services.catalog.job_counts()
    bad = (JobState.QUEUED, JobState.RUNNING, JobState.FAILED, JobState.DEAD)
    return {state: counts[state] for state in bad if counts[state]}


def _fields(document: Document) -> str:
    kept = (document.title, document.media_type, document.content_hash, document.byte_count, document.chunk_count)
    return f"{kept} {json.dumps(document.metadata, sort_keys=True)}"


def _points_by_document(services: Services, index: str) -> dict[str, list[StoredPoint]]:
    found: dict[str, list[StoredPoint]] = defaultdict(list)
    services.index.count(index)  # connects anew when the engine was killed, which the bare client does not
    client: Any = services.index.client  # type: ignore[attr-defined]  # the port gives ids alone
    offset = None
    while True:
        records, offset = client.scroll(index, limit=_PAGE, offset=offset, with_payload=True, with_vectors=True)
        for record in records:
            metadata = dict(record.payload["metadata"])
            document_id = metadata.pop("document_id", "?")
            given = {key: value for key, value in record.payload.items() if key != NUMBERS_FIELD or value}  # {}: none
            payload = json.dumps({**given, "metadata": metadata}, sort_keys=True)
            sparse = record.vector[WORDS]
            words = dict(zip(sparse.indices, sparse.values, strict=True))
            found[document_id].append(StoredPoint(str(record.id), payload, np.array(record.vector[""]), words))
        if offset is None:
            return found
