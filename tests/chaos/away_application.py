"""A home with real parts, whose worker is a process of its own, for tests in which a part is away for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from chaos_processes import Supervisor
from open_jobs import count_open
from patience import wait_until

from app.services import Services
from app.settings import Settings
from app.testing import text_source
from app.types.documents import Document, DocumentState, Job, JobState
from app.wiring.services import open_services

_COLLECTION = "library"
_SECRETS = ("qdrant_api_key", "embedder_api_key")


class AwayApplication:
    def __init__(self, home: Path, *, logs: Path, **settings: object) -> None:
        self.home = home
        self._logs = logs
        self._settings = Settings(home=home, lease_s=2, **settings)  # type: ignore[arg-type]
        self._opened = ExitStack()
        self.services: Services

    def __enter__(self) -> Self:
        self.services = self._opened.enter_context(open_services(self._settings))
        self.services.library.create_collection(_COLLECTION, document_steps=1, chunk_tokens=200)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, text: str, *, name: str = "a.txt") -> Document:
        document, _ = self.services.library.add_document(_COLLECTION, text_source(f"file:///{name}", text))
        return document

    def delete(self, document: Document) -> None:
        self.services.library.delete_document(document.id)

    @contextmanager
    def worker(self) -> Iterator[Supervisor]:
        """`gircse worker` as a process. It must not end by itself, nor meet a fault that it does not know."""
        environment = {
            f"GIRCSE_{name.upper()}": str(value)
            for name, value in self._settings.model_dump(exclude=set(_SECRETS), exclude_none=True).items()
        }
        for name in _SECRETS:
            if (secret := getattr(self._settings, name)) is not None:
                environment[f"GIRCSE_{name.upper()}"] = secret.get_secret_value()
        with Supervisor(self.home, environment, logs=self._logs, workers=1) as supervisor:
            try:
                yield supervisor
            except AssertionError as error:
                error.add_note(f"Jobs: {self.services.catalog.jobs()}\nThe worker said: {supervisor.worker_logs()}")
                raise
        said = supervisor.worker_logs()
        assert supervisor.unexpected_exits == [], said
        assert "incident" not in said

    def job(self) -> Job:
        """The newest one."""
        return self.services.catalog.jobs(limit=1)[0]

    def assert_all_done(self, *, documents: int, timeout_s: float = 120) -> None:
        """Every job is done, and the index holds the chunks of the documents and nothing else."""
        catalog = self.services.catalog
        wait_until(lambda: not count_open(catalog.job_counts()), timeout_s=timeout_s)
        assert catalog.job_counts()[JobState.DEAD] == 0
        ready = catalog.documents(_COLLECTION, state=DocumentState.READY)
        assert len(ready) == len(catalog.documents(_COLLECTION)) == documents
        index = catalog.collection(_COLLECTION).active_index
        chunks = {chunk.id for document in ready for chunk in catalog.chunks(document.id)}
        assert set(self.services.index.point_ids(index)) == chunks
        assert chunks
