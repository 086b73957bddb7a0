"""What the engine needs of a node, and of a cluster, as protocols. `app/wiring/nodes.py` implements the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Container
from contextlib import AbstractContextManager
from typing import Protocol

from app.errors import UnavailableError
from app.ports.parts import Embedder
from app.types.documents import Collection
from ingest.indexer import DocumentIndexer
from ingest.ray_engine.results import Result, Work


class NodeParts(Protocol):
    """Travels to the nodes as a value. Each part is opened once in a process, when it is first asked for."""

    def prepare_cpu(self, threads: int) -> None:
        """Before all else, in a process that computes on the CPU with so many threads."""
        ...

    def embedder(self) -> Embedder:
        """On the device that this process was given."""
        ...

    def indexer(self, *, is_leaving: Callable[[], bool], before_embedding: Callable[[], None]) -> DocumentIndexer:
        """`is_leaving` is asked, in the thread that indexes, by what waits for something."""
        ...


class Run(Protocol):
    """One pass over the documents of a shard."""

    def results(self) -> Iterator[Sequence[Result]]:
        """Of each document its results in their order. Empty ones while nothing comes back, so that a stop is seen.

        Raises GircseError, and BrokenRunError.
        """
        ...

    def renew(self, lost: Container[str], *, seconds: float) -> Mapping[str, float]:
        """From now on nothing is written for the jobs that are lost, and in so many seconds for none.

        The progress, 0 to 1, of those that are worked on, by the id of the job.
        """
        ...


class Cluster(Protocol):
    def open_run(self, collection: Collection, works: Sequence[Work]) -> AbstractContextManager[Run]:
        """Once its block has ended, nothing more is written for these documents."""
        ...


class BrokenRunError(UnavailableError):
    """A node or a process of the cluster was lost. What was not recorded is run again."""
