"""For the tests of bulk ingestion: a node in this process, without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from app.collections.lens_indexing import LensIndexer
from app.errors import UnavailableError
from app.ports.ledger import Ledger
from app.ports.parts import SharedEmbedder
from app.services import Services
from app.types.documents import Collection as DocumentCollection
from app.types.documents import Job
from app.wiring.nodes import Unlabelled
from ingest.indexer import DocumentIndexer
from ingest.pipeline import IngestPipeline
from ingest.ray_engine.engine import ShardEngine
from ingest.ray_engine.node import Node
from ingest.ray_engine.parts import BrokenRunError
from ingest.ray_engine.results import Result, Work
from ingest.readers.document import read_file
from ingest.splitters import splitter_of

LEASE = timedelta(seconds=30)


@dataclass(frozen=True)
class ApplicationParts:
    """Implements `NodeParts` with the parts of an application."""

    services: Services
    batch_size: int = 64

    def prepare_cpu(self, threads: int) -> None:
        """It computes nothing of its own."""

    def embedder(self) -> SharedEmbedder:
        return self.services.embedder

    def indexer(self, *, is_leaving: Callable[[], bool], before_embedding: Callable[[], None]) -> DocumentIndexer:
        return DocumentIndexer(
            blobs=self.services.blobs,
            index=self.services.index,
            lens_indexing=Unlabelled(self.services.index),
            embedder=self.services.embedder.for_ingestion(is_leaving),
            read=read_file,
            splitter_for=lambda each: splitter_of(each, self.services.token_counter),
            batch_size=self.batch_size,
            block_batch_size=self.batch_size,
            before_embedding=before_embedding,
        )


class KilledError(BaseException):
    """What a part raises in a test to end its node's process."""


@dataclass
class OneNode:
    """Implements `Cluster`. `at_block` is called before each block with its number, counted over all runs."""

    parts: ApplicationParts
    at_block: Callable[[int], None] = lambda _: None
    per_block: int = 1
    blocks: int = 0
    runs: list[int] = field(default_factory=list)  # how many documents each was given

    @contextmanager
    def open_run(self, collection: DocumentCollection, works: Sequence[Work]) -> Iterator[OneRun]:
        self.runs.append(len(works))
        yield OneRun(self, collection, works, Node(self.parts, slots=1))


@dataclass
class OneRun:
    cluster: OneNode
    collection: DocumentCollection
    works: Sequence[Work]
    node: Node

    def renew(self, lost: Collection[str], *, seconds: float) -> Mapping[str, float]:
        return self.node.renew("run", lost, seconds)

    def results(self) -> Iterator[Sequence[Result]]:
        size = self.cluster.per_block
        for start in range(0, len(self.works), size):
            self.cluster.blocks += 1
            self.cluster.at_block(self.cluster.blocks - 1)
            try:
                yield from self.node.index("run", self.collection, self.works[start : start + size])
            except KilledError as error:
                raise BrokenRunError("The node of the test was killed.") from error


def breaking_at(*blocks: int) -> Callable[[int], None]:
    def break_run(number: int) -> None:
        if number in blocks:
            raise BrokenRunError("A node of the test was lost.")

    return break_run


def away_at(*blocks: int) -> Callable[[int], None]:
    def fail(number: int) -> None:
        if number in blocks:
            raise UnavailableError("A part of the test is away.")

    return fail


def engine_of(services: Services, cluster: OneNode, *, shard_documents: int = 100) -> ShardEngine:
    catalog: Ledger = services.catalog
    deleting = IngestPipeline(
        catalog=catalog,
        blobs=services.blobs,
        index=services.index,
        lens_indexing=LensIndexer(catalog=catalog, index=services.index, embedder=services.embedder),
        embedder=services.embedder,
        read=read_file,
        splitter_for=lambda each: splitter_of(each, services.token_counter),
    )

    def delete(job: Job) -> None:
        deleting.run(job, heartbeat=lambda done: catalog.heartbeat(job, lease=LEASE, progress=done))

    return ShardEngine(
        catalog=catalog,
        index=services.index,
        blobs=services.blobs,
        cluster=cluster,
        delete=delete,
        owner="bulk-test",
        lease=LEASE,
        shard_documents=shard_documents,
        poll_s=0.01,
    )
