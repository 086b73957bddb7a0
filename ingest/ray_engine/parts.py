"""Protocols of the parts that the engine needs: a node's and a cluster's. `app/wiring/nodes.py` implements a node's."""

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
    """Pickled and sent to the nodes. Each part is opened once per process, on first use."""

    def prepare_cpu(self, threads: int) -> None:
        """Limits this process to `threads` CPU threads. Call it before anything else."""
        ...

    def embedder(self) -> Embedder:
        """The model, on the device assigned to this process."""
        ...

    def indexer(self, *, is_leaving: Callable[[], bool], before_embedding: Callable[[], None]) -> DocumentIndexer:
        """`is_leaving` is polled by blocking calls in the indexing thread; `before_embedding` is called before the
        model."""
        ...


class ClusterRun(Protocol):
    """One pass over the documents of a shard."""

    def results(self) -> Iterator[Sequence[Result]]:
        """Yields results; those of one document arrive in order. Yields empty sequences while it waits, so that the
        caller can stop.

        Raises GircseError and BrokenRunError.
        """
        ...

    def renew(self, lost: Container[str], *, seconds: float) -> Mapping[str, float]:
        """Renews the leases of the run for `seconds`; from now on nothing is written for the `lost` jobs.

        Returns the progress, 0 to 1, of jobs in flight, by job id.
        """
        ...


class Cluster(Protocol):
    def open_run(self, collection: Collection, works: Sequence[Work]) -> AbstractContextManager[ClusterRun]:
        """Opens a run over these documents. After the block nothing more is written for them."""
        ...


class BrokenRunError(UnavailableError):
    """A node or a process of the cluster was lost. Documents not yet recorded are run again."""
