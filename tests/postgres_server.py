"""Starts a PostgreSQL of this machine's own in a temporary folder, for the tests that need a real one."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from patience import PATIENCE_S
from sqlalchemy import create_engine, make_url, text


@contextmanager
def postgres_server(port: int | None = None) -> Iterator[str]:
    """The address of an empty server, without a database name. Skips where PostgreSQL is not installed."""
    programs = postgres_programs()
    # Not pytest's tmp_path: the server refuses to run as root, and its own user may not enter root's folders.
    folder = Path(tempfile.mkdtemp(prefix="gircse-postgres-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    port = port or free_port()
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, *arguments],
            user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S,
        )  # fmt: skip

    try:
        run("initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
        # mmap: the other kinds of shared memory stay behind when the server is stopped at once.
        settings = "-F -c max_connections=60 -c dynamic_shared_memory_type=mmap -c listen_addresses=127.0.0.1"
        options = f"-p {port} -k {folder} {settings}"
        run("pg_ctl", "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            yield f"postgresql://tester@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


def create_database(
    server: str, name: str, *, template: str = "template0", encoding: str = "UTF8", locale: str = "C"
) -> None:
    assert name.endswith("_test")
    admin = create_engine(
        make_url(f"{server}/postgres").set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        # Copied as files, so that nothing of it is in the server's memory yet.
        options = f"TEMPLATE \"{template}\" ENCODING '{encoding}' LOCALE '{locale}' STRATEGY FILE_COPY"
        connection.execute(text(f'CREATE DATABASE "{name}" {options}'))
    admin.dispose()


def free_port() -> int:
    """Below the ports that the system gives out by itself: no other process takes it before it is used."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def postgres_programs() -> Path:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'gircse-search[postgres]'")
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists():
            return folder
    pytest.skip("PostgreSQL's initdb is not installed (package postgresql)")
