"""A PostgreSQL that hangs, as in a paused container: it takes packets and answers none."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psutil
import pytest
from fresh_catalog import with_known_statements
from patience import wait_until
from postgres_server import create_database, postgres_server
from sqlalchemy import Engine, text

from app.catalog import SqlCatalog, connect, upgrade, watched_connection
from app.errors import CatalogUnavailableError

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.xdist_group("postgres-hangs"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with postgres_server() as server:
        create_database(server, "hanging_test")
        engine = with_known_statements(connect(f"{server}/hanging_test"))
        upgrade(engine)
        yield engine
        engine.dispose()


def send(number: signal.Signals, processes: list[psutil.Process]) -> None:
    for each in processes:
        with suppress(ProcessLookupError):  # a worker of the server has ended by itself
            os.kill(each.pid, number)


@pytest.fixture
def stopped(engine: Engine) -> Callable[[], AbstractContextManager[None]]:
    with engine.connect() as connection:
        folder = connection.execute(text("SELECT current_setting('data_directory')")).scalar_one()
    with open(f"{folder}/postmaster.pid", encoding="utf-8") as file:
        server = psutil.Process(int(file.readline()))

    @contextmanager
    def stop() -> Iterator[None]:
        processes = [server, *server.children(recursive=True)]
        send(signal.SIGSTOP, processes)
        try:
            yield
        finally:
            send(signal.SIGCONT, processes)

    return stop


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_connection, "QUIET_S", 0.3)
    monkeypatch.setattr(watched_connection, "PING_S", 0.5)


def is_away(catalog: SqlCatalog) -> bool:
    try:
        catalog.collections()
    except CatalogUnavailableError:
        return True
    return False


@pytest.mark.timeout(120)
def test_nobody_waits_for_a_server_that_hangs(
    engine: Engine, stopped: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = SqlCatalog(engine)
    assert not is_away(catalog)
    with stopped():
        assert is_away(catalog)  # on a connection that is open
        monkeypatch.setattr(watched_connection, "QUIET_S", 3_600)
        assert is_away(catalog)  # known: a new connection is not tried
    monkeypatch.setattr(watched_connection, "QUIET_S", 0.3)
    wait_until(lambda: not is_away(catalog))


@pytest.mark.timeout(120)
def test_a_new_connection_is_not_waited_for_either(
    engine: Engine, stopped: Callable[[], AbstractContextManager[None]]
) -> None:
    engine.dispose()
    with stopped():
        assert is_away(SqlCatalog(engine))
    wait_until(lambda: not is_away(SqlCatalog(engine)))


def test_a_statement_may_take_long_while_the_server_answers(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1 FROM pg_sleep(1.5)")).scalar_one() == 1
