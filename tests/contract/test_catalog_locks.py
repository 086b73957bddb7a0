"""A catalog that is locked: requests fail early and name it, background work waits, and short locks fail nothing."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from locked_catalog import locked
from patience import PATIENCE_S, wait_until
from sqlalchemy import Engine, event, text

from app.catalog import SqlCatalog, connect, lock_waits
from app.catalog.sessions import Database
from app.errors import CatalogUnavailableError
from app.types.documents import Lens
from app.types.patience import answering

pytestmark = pytest.mark.timeout(300)

BUSY = "The catalog at .* is busy: another transaction holds a lock[.] Try again soon"


@pytest.fixture(autouse=True)
def background_waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a request that waited as long as background work would never end."""
    monkeypatch.setattr(lock_waits, "BACKGROUND_S", 2 * PATIENCE_S)


def test_a_request_does_not_wait_for_a_locked_catalog(
    catalog: SqlCatalog, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(), locked(engine):
        with pytest.raises(CatalogUnavailableError, match=BUSY):
            catalog.save_lens(Lens("topic", "Same topic"))
        monkeypatch.setattr(lock_waits, "LOCK_S", 2 * PATIENCE_S)
        with pytest.raises(CatalogUnavailableError, match=BUSY):  # known of this request
            catalog.save_lens(Lens("topic", "Same topic"))
    with answering():
        catalog.save_lens(Lens("topic", "Same topic"))


def test_background_work_waits_for_a_locked_catalog(catalog: SqlCatalog, engine: Engine) -> None:
    with ThreadPoolExecutor(1) as background:
        with locked(engine):
            saved = background.submit(catalog.save_lens, Lens("topic", "Same topic"))
            with answering(), pytest.raises(CatalogUnavailableError, match=BUSY):
                catalog.save_lens(Lens("place", "Same place"))
            assert not saved.done()
        saved.result()
    assert [each.name for each in catalog.lenses()] == ["topic"]


def test_a_new_connection_waits_no_longer_than_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's driver would wait for 5 s of its own before the first poll."""
    engine = connect(f"sqlite:///{tmp_path / 'new.db'}")
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE made (id)")
        other.execute("BEGIN EXCLUSIVE")
        waits: list[float] = []
        monkeypatch.setattr("app.catalog.engine.time.sleep", waits.append)
        monkeypatch.setattr(lock_waits, "LOCK_S", 0.05)
        with answering(), pytest.raises(CatalogUnavailableError, match=BUSY), Database(engine).reading() as session:
            session.execute(text("SELECT 1"))
        assert len(waits) > 1  # it polls, and each poll returns at once
    engine.dispose()


def test_a_request_does_not_wait_behind_background_work_that_waits(catalog: SqlCatalog, engine: Engine) -> None:
    with ThreadPoolExecutor(4) as background:
        with locked(engine):
            saved = [background.submit(catalog.save_lens, Lens(f"topic {at}", "Same topic")) for at in range(4)]
            with answering(), pytest.raises(CatalogUnavailableError, match=BUSY):
                catalog.save_lens(Lens("place", "Same place"))
        for each in saved:
            each.result()
    assert len(catalog.lenses()) == 4


def test_a_connection_without_transactions_gets_no_limit_of_one(engine: Engine) -> None:
    """PostgreSQL would warn with each statement."""
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no such limit")
    warnings: list[str | None] = []
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        driver: Any = connection.connection.dbapi_connection
        driver.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
        connection.execute(text("SELECT 1"))
    assert warnings == []


def test_reads_of_a_request_are_answered_or_fail_early_while_the_catalog_is_locked(
    catalog: SqlCatalog, engine: Engine
) -> None:
    catalog.save_lens(Lens("topic", "Same topic"))
    with answering(), locked(engine):
        if engine.dialect.name == "sqlite":
            assert [each.name for each in catalog.lenses()] == ["topic"]
        else:
            with pytest.raises(CatalogUnavailableError, match=BUSY):
                catalog.lenses()


def test_a_request_does_not_wait_for_a_connection_while_all_are_in_use(catalog: SqlCatalog, engine: Engine) -> None:
    with ThreadPoolExecutor(1) as background:
        with ExitStack() as taken:
            for _ in range(15):
                taken.enter_context(engine.connect())
            found = background.submit(catalog.lenses)
            with (
                answering(),
                pytest.raises(CatalogUnavailableError, match="busy: all connections are in use"),
            ):
                catalog.lenses()
            assert not found.done()
        assert found.result() == []


def test_many_requests_that_write_at_once_wait_for_each_other(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_waits, "LOCK_S", PATIENCE_S)  # on a busy machine, short locks take long
    started = threading.Barrier(40)

    def save(number: int) -> None:
        started.wait(PATIENCE_S)
        for at in range(5):
            with answering():
                catalog.save_lens(Lens(f"{number} {at}", "Same topic"))

    with ThreadPoolExecutor(40) as threads:
        for each in [threads.submit(save, number) for number in range(40)]:
            each.result()
    assert len(catalog.lenses()) == 200


def test_the_api_answers_503_and_names_the_catalog(
    catalog: SqlCatalog, engine: Engine, toy_services_factory: Callable[..., Any]
) -> None:
    services = replace(toy_services_factory().services, catalog=catalog)
    lens = {"name": "topic", "query_instruction": "Same topic"}
    with TestClient(api_of(services)) as client:
        with locked(engine):
            refusal = client.post("/api/v1/lenses", json=lens)
        assert refusal.status_code == 503
        assert "The catalog at" in refusal.json()["detail"]
        assert "is busy" in refusal.json()["detail"]
        assert client.post("/api/v1/lenses", json=lens).status_code == 200


def test_writers_of_one_process_take_turns(catalog: SqlCatalog, engine: Engine) -> None:
    """On SQLite a writer that waits for others of its process keeps no connection from readers."""
    if engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL locks rows.")
    opened: list[object] = []
    event.listen(engine, "checkout", lambda *_: opened.append(None))
    with ThreadPoolExecutor(20) as background, catalog.database.writing() as session:
        session.execute(text("SELECT 1"))
        waiting = [background.submit(catalog.save_lens, Lens(f"{at}", "Same topic")) for at in range(20)]
        turns = catalog.database._turns
        assert turns is not None
        wait_until(lambda: len(turns._waiting) == 20)
        assert len(opened) == 1
        session.commit()
    assert [each.result() for each in waiting] == [None] * 20
