"""For the tests of bulk ingestion: the stages of a shard run one after the other in this process, without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from app.collections.blobs import FolderBlobStore
from app.collections.lens_indexing import LensIndexer
from app.errors import UnavailableError
from app.ports.ledger import Ledger
from app.ports.parts import Embedder, VectorIndex
from app.ports.texts import Reader, Splitter
from app.services import Services
from app.types.documents import Collection as DocumentCollection
from app.types.documents import Job
from ingest.pipeline import IngestPipeline
from ingest.ray_engine.engine import ShardEngine
from ingest.ray_engine.parts import BrokenRunError
from ingest.ray_engine.rows import Work, works_to_table
from ingest.ray_engine.stages import EmbedMissing, read_and_split, write_points
from ingest.readers.document import read_file
from ingest.splitters import splitter_of

LEASE = timedelta(seconds=30)
ROWS = 2  # of a table


@dataclass(frozen=True)
class ApplicationParts:
    """Implements `NodeParts` with the parts of an application."""

    services: Services

    def blobs(self) -> FolderBlobStore:
        assert isinstance(self.services.blobs, FolderBlobStore)
        return self.services.blobs

    def index(self) -> VectorIndex:
        return self.services.index

    def embedder(self) -> Embedder:
        return self.services.embedder

    def reader(self) -> Reader:
        return read_file

    def splitter(self, collection: DocumentCollection) -> Splitter:
        return splitter_of(collection, self.services.token_counter)


@dataclass
class PlainPipeline:
    """Implements `Pipeline`. `at_table` is called before each table with its number, counted over all runs."""

    parts: ApplicationParts
    at_table: Callable[[int], None] = lambda _: None
    tables: int = 0
    runs: list[int] = field(default_factory=list)  # how many documents each was given

    @contextmanager
    def open_run(self, collection: DocumentCollection, works: Sequence[Work]) -> Iterator[PlainRun]:
        self.runs.append(len(works))
        yield PlainRun(self, collection, works)


class PlainRun:
    def __init__(self, pipeline: PlainPipeline, collection: DocumentCollection, works: Sequence[Work]) -> None:
        self._pipeline = pipeline
        self._collection = collection
        self._works = works
        self._lost: set[str] = set()

    def renew(self, lost: Collection[str], *, seconds: float) -> None:
        self._lost |= set(lost)

    def require_whole(self) -> None:
        pass  # it has no nodes

    def lost(self, job_ids: Collection[str]) -> set[str]:
        return set(job_ids) & self._lost

    def tables(self) -> Iterator[pa.Table]:
        parts = self._pipeline.parts
        embed = EmbedMissing(parts=parts, collection=self._collection, leases=self)
        for work in self._works:
            read = read_and_split(works_to_table([work]), parts=parts, collection=self._collection, leases=self)
            for table in (each.slice(start, ROWS) for each in read for start in range(0, len(each), ROWS)):
                self._pipeline.tables += 1
                self._pipeline.at_table(self._pipeline.tables - 1)
                yield write_points(embed(table), parts=parts, collection=self._collection, leases=self)


def breaking_at(*tables: int) -> Callable[[int], None]:
    def break_run(number: int) -> None:
        if number in tables:
            raise BrokenRunError("A node of the test was lost.")

    return break_run


def away_at(*tables: int) -> Callable[[int], None]:
    def fail(number: int) -> None:
        if number in tables:
            raise UnavailableError("A part of the test is away.")

    return fail


def engine_of(services: Services, pipeline: PlainPipeline, *, shard_documents: int = 100) -> ShardEngine:
    catalog: Ledger = services.catalog
    deleting = IngestPipeline(
        catalog=catalog,
        blobs=services.blobs,
        index=services.index,
        lens_indexing=LensIndexer(catalog=catalog, index=services.index, embedder=services.embedder),
        embedder=services.embedder,
        read=read_file,
        splitter_for=pipeline.parts.splitter,
    )

    def delete(job: Job) -> None:
        deleting.run(job, heartbeat=lambda done: catalog.heartbeat(job, lease=LEASE, progress=done))

    return ShardEngine(
        catalog=catalog,
        index=services.index,
        blobs=services.blobs,
        pipeline=pipeline,
        delete=delete,
        owner="bulk-test",
        lease=LEASE,
        shard_documents=shard_documents,
        poll_s=0.01,
    )
