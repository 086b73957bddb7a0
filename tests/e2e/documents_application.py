"""A service whose model is small enough to start at once: real catalog, files, readers, worker, API and pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from patience import PATIENCE_S
from served import served

from app.settings import Settings
from app.testing import ToyEmbedder
from app.wiring.ingestion import run_worker
from app.wiring.web import open_web

START_TIMEOUT_S = 60


class SlowEmbedder(ToyEmbedder):
    """Waits before each batch of documents until `unblocked` is set."""

    def __init__(self) -> None:
        super().__init__(is_recording=False)
        self.unblocked = threading.Event()
        self.unblocked.set()

    def embed_documents(self, texts: Any, *, instruction: str, steps: int) -> list[list[float]]:
        self.unblocked.wait(timeout=PATIENCE_S)
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@contextmanager
def serving_documents(application_class: Any, home: Path, *, has_worker: bool = True) -> Iterator[tuple[str, Any]]:
    """The address of a service on an empty home, and its application."""
    stop, embedder = threading.Event(), SlowEmbedder()
    with ExitStack() as opened:
        application = application_class(home, opened, embedder=embedder)
        # Pages of a server on this machine are fetched, as those of the internet would be.
        application.services = replace(application.services, settings=Settings(home=home, allow_private_urls=True))
        web = opened.enter_context(open_web(application.services))
        url = opened.enter_context(served(web))
        worker = threading.Thread(target=run_worker, args=(application.services, stop), daemon=True)
        if has_worker:
            worker.start()
        try:
            yield url, application
        finally:
            embedder.unblocked.set()
            stop.set()
            if has_worker:
                worker.join(20)
