"""What `gircse ingest --engine ray` does instead of a worker of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec

from app.commands.composition import wiring
from app.errors import ConflictError, NotFoundError
from app.services import Services


class Engine(StrEnum):
    LOCAL = "local"
    RAY = "ray"


def require_ray() -> None:
    if find_spec("ray") is None:
        raise NotFoundError(
            "This installation lacks what `--engine ray` needs. Install its extra: pip install 'gircse-search[ray]'"
        )


@contextmanager
def ray_engine(services: Services, collection: str) -> Iterator[Callable[[], None]]:
    """Runs the jobs of the collection in a thread. Yields a function that raises if the thread has ended by itself."""
    stop = threading.Event()
    with wiring("bulk").open_engine(services) as engine, ThreadPoolExecutor(1, "bulk") as thread:
        working = thread.submit(engine.run, collection, stop)

        def ensure_working() -> None:
            if working.done():
                working.result()  # raises what it ended with
                raise ConflictError("Bulk ingestion stopped by itself; `gircse --debug …` shows why. Nothing is lost.")

        try:
            yield ensure_working
        finally:
            stop.set()
