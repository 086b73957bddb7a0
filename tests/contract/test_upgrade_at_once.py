"""Web and workers start together: each migrates, one does it, the others wait for it."""

from __future__ import annotations

import subprocess
import sys

from patience import PATIENCE_S
from postgres_server import create_database
from sqlalchemy import inspect

from app.catalog import connect
from app.catalog.tables import Table

UPGRADE = "import sys; from app.catalog import connect, upgrade; upgrade(connect(sys.argv[1]))"
PROCESSES = 4


def test_many_processes_migrate_an_empty_postgresql_once(postgres_url: str) -> None:
    create_database(postgres_url, "at_once_test")
    url = f"{postgres_url}/at_once_test"
    started = [
        subprocess.Popen([sys.executable, "-c", UPGRADE, url], stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    errors = [process.communicate(timeout=PATIENCE_S)[1] for process in started]
    assert [process.returncode for process in started] == [0] * PROCESSES, errors
    engine = connect(url)
    try:
        assert set(inspect(engine).get_table_names()) == {*Table.metadata.tables, "alembic_version"}
    finally:
        engine.dispose()
