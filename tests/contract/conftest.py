"""A migrated catalog on SQLite and on a real PostgreSQL, each test with a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from catalog_samples import LIBRARY, Clock, claimed, new_chunk, new_document
from fresh_catalog import connect_migrated, with_known_statements
from postgres_server import create_database, postgres_server
from sqlalchemy import Engine

from app.catalog import SqlCatalog, connect, upgrade
from app.types.documents import Job


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture(scope="session")
def migrated_template(postgres_url: str) -> str:
    """A migrated database that each test gets a copy of."""
    create_database(postgres_url, "template_test")
    engine = connect(f"{postgres_url}/template_test")
    upgrade(engine)
    engine.dispose()
    return "template_test"


_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        engine = connect_migrated(tmp_path / "catalog.db")
    else:
        server, template = request.getfixturevalue("postgres_url"), request.getfixturevalue("migrated_template")
        name = f"catalog_{next(_numbers)}_test"
        create_database(server, name, template=template)
        engine = with_known_statements(connect(f"{server}/{name}"))
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalog(engine: Engine, clock: Clock) -> SqlCatalog:
    catalog = SqlCatalog(engine, clock=clock)
    catalog.create_collection(LIBRARY)
    return catalog


@pytest.fixture
def submitted(catalog: SqlCatalog) -> Callable[..., Job]:
    def submit(uri: str = "a.txt", **changes: object) -> Job:
        _, job = catalog.submit("library", new_document(uri, **changes))  # type: ignore[arg-type]
        assert job is not None
        return job

    return submit


@pytest.fixture
def ingested(catalog: SqlCatalog, submitted: Callable[..., Job]) -> Callable[..., str]:
    """Submits a document and marks it done, as a worker would. Returns its id."""

    def ingest(uri: str = "a.txt", *, chunks: int = 2) -> str:
        submitted(uri)
        job = claimed(catalog)
        parts = [new_chunk(job.document_id, ordinal) for ordinal in range(chunks)]
        catalog.complete_ingest(job, title="Found title", metadata={"year": 1999, "kind": "note"}, chunks=parts)
        return job.document_id

    return ingest
