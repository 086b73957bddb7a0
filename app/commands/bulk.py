"""Bulk ingestion on Ray, which `gircse ingest --engine ray` runs instead of a local worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec

from app.commands.wiring import wiring
from app.errors import ConflictError, NotFoundError
from app.services import Services


class IngestEngine(StrEnum):
    LOCAL = "local"
    RAY = "ray"


def require_ray() -> None:
    if find_spec("ray") is None:
        raise NotFoundError("`--engine ray` needs the extra `ray`. Install it: pip install 'gircse-search[ray]'")


@contextmanager
def ray_engine(services: Services, collection: str) -> Iterator[Callable[[], None]]:
    """Run the jobs of the collection in a thread until the block ends.

    Yields a function to call now and then. It raises the thread's error, or ConflictError, if the thread has ended.
    """
    stop = threading.Event()
    with wiring("bulk").open_engine(services) as engine, ThreadPoolExecutor(1, "bulk") as thread:
        working = thread.submit(engine.run, collection, stop)

        def ensure_working() -> None:
            if working.done():
                working.result()  # raises the thread's exception, if any
                raise ConflictError("Bulk ingestion stopped by itself; `gircse --debug …` shows why. Nothing is lost.")

        try:
            yield ensure_working
        finally:
            stop.set()
