"""The three stages of a shard as functions of Arrow tables: read and split, embed what is missing, write.

Each may be repeated at any time, on any node: the index itself says what is there already.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from app.errors import GircseError, NotFoundError, UnavailableError
from app.ports.parts import Embedder
from app.search.fingerprints import require_same_model
from app.types.documents import Collection, Point
from ingest.incidents import log_incident
from ingest.pipeline import chunks_of, describe, make_payload, read_text
from ingest.points import PresentPoints, embed_chunks
from ingest.ray_engine.parts import Leases, NodeParts
from ingest.ray_engine.rows import ChunkRow, DocumentRow, FailedRow, Row, Work, rows_of, to_table, works_of, written
from ingest.spooled_files import SpooledText

T = TypeVar("T")

log = logging.getLogger(__name__)

_ROWS_PER_TABLE = 256
_PATIENCE_S = 60.0  # with a part that is away for a moment: a run that breaks costs more
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
# Unexpected errors of one document, which must not fail the batch.
UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def read_and_split(table: pa.Table, *, parts: NodeParts, collection: Collection, leases: Leases) -> Iterator[pa.Table]:
    works = list(works_of(table))
    lost = leases.lost([work.job_id for work in works])
    batch: list[Row] = []
    for work in works:
        for row in _rows_of_work(work, parts, collection) if work.job_id not in lost else ():
            batch.append(row)
            if len(batch) == _ROWS_PER_TABLE:
                yield to_table(batch)
                batch.clear()
    yield to_table(batch)


def _rows_of_work(work: Work, parts: NodeParts, collection: Collection) -> Iterator[Row]:
    try:
        yield from _split(work, parts, collection)
    except UnavailableError:
        raise
    except (NotFoundError, FileNotFoundError) as error:
        yield FailedRow(work.job_id, str(error), is_its_own=True, is_missing=True)
    except GircseError as error:  # its message is written for a person, and trying again would not help
        yield FailedRow(work.job_id, str(error), is_its_own=True)
    except UNFORESEEN as error:
        yield _unforeseen(work.job_id, error)


def _split(work: Work, parts: NodeParts, collection: Collection) -> Iterator[Row]:
    document = work.document
    index, blobs = parts.index(), parts.blobs()
    with SpooledText() as text:
        with blobs.batch() as texts:
            found = read_text(document, text, blobs=blobs, texts=texts, read=parts.reader(), heartbeat=lambda _: None)
        title, metadata = describe(document, found)
        ids = patiently(lambda: list(index.points_of(collection.active_index, [document.id])))
        present = PresentPoints(point_id for _, point_id in ids)
        count = 0
        for chunk in chunks_of(document, collection, found, text, parts.splitter(collection)):
            present.want(chunk.id)
            count += 1
            yield ChunkRow(work.job_id, chunk, make_payload(document, chunk, title, metadata))
        yield DocumentRow(work.job_id, title, metadata, count, tuple(present.unwanted()))


class EmbedMissing:
    """Holds the model, so it is made once for many tables. What the index has already is not embedded again.

    The model is loaded with the first table: what fails while an actor is made, Ray tells as mere text.
    """

    def __init__(self, *, parts: NodeParts, collection: Collection, leases: Leases) -> None:
        self._parts = parts
        self._collection = collection
        self._leases = leases

    @cached_property
    def _embedder(self) -> Embedder:
        embedder = self._parts.embedder()
        require_same_model(self._collection, embedder)
        return embedder

    def __call__(self, table: pa.Table) -> pa.Table:
        rows = _held(list(rows_of(table)), self._leases)
        chunks = [row for row in rows if isinstance(row, ChunkRow)]
        index, name = self._parts.index(), self._collection.active_index
        present = patiently(lambda: index.present_ids(name, [row.chunk.id for row in chunks]))
        embedded = self._embed([row for row in chunks if row.chunk.id not in present])
        done = {(row.job_id, row.chunk.id): row for row in embedded if isinstance(row, ChunkRow)}
        errors = [row for row in embedded if isinstance(row, FailedRow)]
        return to_table(
            [*(done.get((r.job_id, r.chunk.id), r) if isinstance(r, ChunkRow) else r for r in rows), *errors]
        )

    def _embed(self, rows: Sequence[ChunkRow]) -> list[ChunkRow | FailedRow]:
        if not rows:
            return []
        embedder = self._embedder
        try:
            vectors = embed_chunks(embedder, self._collection, [row.chunk for row in rows])
        except UnavailableError:
            raise
        except (GircseError, *UNFORESEEN) as error:
            if len(rows) > 1:  # it is one text's error: the others get their vectors
                return [embedded for row in rows for embedded in self._embed([row])]
            if isinstance(error, GircseError):
                return [FailedRow(rows[0].job_id, str(error), is_its_own=True)]
            return [_unforeseen(rows[0].job_id, error)]
        return [replace(row, steps=steps) for row, steps in zip(rows, vectors, strict=True)]


def write_points(table: pa.Table, *, parts: NodeParts, collection: Collection, leases: Leases) -> pa.Table:
    index, name = parts.index(), collection.active_index
    rows = list(rows_of(table))
    faulty = {row.job_id for row in rows if isinstance(row, FailedRow)}

    def write() -> list[Row]:
        held = _held(rows, leases)  # asked again whenever the index kept us waiting
        chunks = [row for row in held if isinstance(row, ChunkRow) and row.job_id not in faulty]
        new = [Point.of_steps(row.chunk.id, row.steps, row.payload) for row in chunks if row.steps is not None]
        kept = {row.chunk.id: row.payload for row in chunks if row.steps is None}
        index.upsert(name, new)
        index.set_payloads(name, kept)
        return [*map(written, chunks), *(row for row in held if not isinstance(row, ChunkRow))]

    return to_table(patiently(write))


def patiently(action: Callable[[], T]) -> T:
    """Tries again, for a while, as long as a part that is needed is away."""
    deadline = time.monotonic() + _PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return action()
        except UnavailableError:
            if time.monotonic() + pause_s > deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _held(rows: list[Row], leases: Leases) -> list[Row]:
    lost = leases.lost({row.job_id for row in rows})
    return [row for row in rows if row.job_id not in lost]


def _unforeseen(job_id: str, error: Exception) -> FailedRow:
    return FailedRow(job_id, log_incident(log, job_id, error), is_its_own=False)
