"""What the engine needs on every node, as protocols. `app/wiring/bulk.py` implements them."""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from app.errors import UnavailableError
from app.ports.parts import BlobStore, Embedder, VectorIndex
from app.ports.texts import Reader, Splitter
from app.types.documents import Collection
from ingest.ray_engine.rows import Work


class NodeParts(Protocol):
    """Travels to the nodes as a value. Each part is opened once in a process, when it is first asked for."""

    def blobs(self) -> BlobStore: ...
    def index(self) -> VectorIndex: ...
    def embedder(self) -> Embedder:
        """The model, on the device that this process was given."""
        ...

    def reader(self) -> Reader: ...
    def splitter(self, collection: Collection) -> Splitter:
        """Loads the tokenizer, not the model."""
        ...


class Leases(Protocol):
    """Asked before each write, from any node."""

    def lost(self, job_ids: Container[str]) -> set[str]:
        """Those of these jobs for which nothing may be written any more: all of them, when the driver fell silent."""
        ...


class Run(Protocol):
    """One pass of a shard through read, split, embed and write."""

    def tables(self) -> Iterator[pa.Table]:
        """Rows of what was written, in any order. Raises GircseError, and BrokenRunError."""
        ...

    def require_whole(self) -> None:
        """Raises BrokenRunError when a node is gone: what it held may never be given to another one."""
        ...

    def renew(self, lost: Container[str], *, seconds: float) -> None:
        """From now on nothing is written for the jobs that are lost, and in so many seconds for none."""
        ...


class Pipeline(Protocol):
    def open_run(self, collection: Collection, works: Sequence[Work]) -> AbstractContextManager[Run]: ...


class BrokenRunError(UnavailableError):
    """A node or a process of the cluster was lost. What was not recorded is run again."""
