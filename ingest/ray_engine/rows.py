"""What travels between the stages of a shard: one Arrow row per chunk, document or error, of one schema throughout.

A body is JSON in ASCII, because Arrow takes no text with lone surrogates, and documents have them.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import pyarrow as pa

from app.types.documents import Chunk, Document, Metadata

SCHEMA = pa.schema(
    [("job_id", pa.string()), ("kind", pa.string()), ("body", pa.string()), ("steps", pa.list_(pa.list_(pa.float32())))]
)
WORK_SCHEMA = pa.schema([("job_id", pa.string()), ("document", pa.binary())])


@dataclass(frozen=True, slots=True)
class Work:
    """A document to be taken in, and the job that it is done for."""

    job_id: str
    document: Document


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """`payload` is empty once it is written; `steps`, its vectors, are there between embedding and writing, for new
    points."""

    job_id: str
    chunk: Chunk
    payload: Mapping[str, object] = field(default_factory=dict)
    steps: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """What the document came to. `stale` are the points that it had and that none of its chunks has."""

    job_id: str
    title: str
    metadata: Metadata
    chunk_count: int
    stale: Sequence[str]


@dataclass(frozen=True, slots=True)
class FailedRow:
    """Why the document cannot be taken in; trying again helps unless the error is its own.

    With `is_missing` its stored file is not there, or a node does not see it.
    """

    job_id: str
    reason: str
    is_its_own: bool
    is_missing: bool = False


Row = ChunkRow | DocumentRow | FailedRow
_KINDS: dict[str, type[Row]] = {"chunk": ChunkRow, "document": DocumentRow, "error": FailedRow}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_table(rows: Iterable[Row]) -> pa.Table:
    listed = list(rows)
    return pa.table(
        {
            "job_id": [row.job_id for row in listed],
            "kind": [_NAMES[type(row)] for row in listed],
            "body": [_body(row) for row in listed],
            "steps": [row.steps if isinstance(row, ChunkRow) else None for row in listed],
        },
        schema=SCHEMA,
    )


def rows_of(table: pa.Table) -> Iterator[Row]:
    columns = (table.column(name).to_pylist() for name in SCHEMA.names)
    for job_id, name, body, steps in zip(*columns, strict=True):
        values = json.loads(body)
        if name == "chunk":
            yield ChunkRow(job_id, Chunk(**values["chunk"]), values["payload"], steps)
        else:
            yield _KINDS[name](job_id=job_id, **values)


def written(row: ChunkRow) -> ChunkRow:
    """Without the columns that are not needed after the index was written."""
    return ChunkRow(row.job_id, replace(row.chunk, text=""))


def works_to_table(works: Sequence[Work]) -> pa.Table:
    # From our own process to our own processes.
    documents = [pickle.dumps(work.document) for work in works]
    return pa.table({"job_id": [work.job_id for work in works], "document": documents}, schema=WORK_SCHEMA)


def works_of(table: pa.Table) -> Iterator[Work]:
    for job_id, document in zip(table.column("job_id").to_pylist(), table.column("document").to_pylist(), strict=True):
        yield Work(job_id, pickle.loads(document))  # noqa: S301


def _body(row: Row) -> str:
    values = asdict(row)
    del values["job_id"]
    values.pop("steps", None)
    return json.dumps(values)
