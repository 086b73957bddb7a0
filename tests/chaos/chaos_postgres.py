"""A PostgreSQL server of the run's own, which can be killed and started again on the same data."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psutil

_START_TIMEOUT_S = 60


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres, or None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class KillablePostgres:
    def __init__(self) -> None:
        programs = postgres_programs()
        if programs is None:
            raise FileNotFoundError("PostgreSQL is not installed here: install the package postgresql.")
        self._programs = programs
        # Not the run's own folder: the server refuses to run as root, and its user may not enter root's folders.
        self._folder = Path(tempfile.mkdtemp(prefix="gircse-chaos-postgres-"))
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        """0 while it is not running."""
        return self._server.pid if self._server is not None and self._server.poll() is None else 0

    def __enter__(self) -> Self:
        options = ["-D", str(self._folder / "data"), "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [self._programs / "initdb", *options, "--no-sync"],
            user=self._user, cwd=self._folder, check=True, stdout=subprocess.DEVNULL, timeout=_START_TIMEOUT_S,
        )  # fmt: skip
        self.ensure_running()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self.is_answering():
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL does not start: {(self._folder / 'log').read_text()[-500:]}")
            self.ensure_running()
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def ensure_running(self) -> None:
        """Starts the server unless it runs. It refuses while the processes of a killed one are still ending."""
        if self._server is not None and self._server.poll() is None:
            return
        # Shared memory is files of its folder (mmap): of others a killed server leaves some behind.
        settings = ("listen_addresses=127.0.0.1", "max_connections=60", "dynamic_shared_memory_type=mmap")
        options = ["-F", *(each for setting in settings for each in ("-c", setting))]
        with open(self._folder / "log", "ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self._folder / "data"), "-p", str(self._port),
                 "-k", str(self._folder), *options],
                user=self._user, cwd=self._folder, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def is_answering(self) -> bool:
        status = subprocess.run(
            [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self._port)], check=False
        )
        return status.returncode == 0

    def kill(self) -> int:
        """The number of the killed process; 0 when there is no running server."""
        if self._server is None or self._server.poll() is not None:
            return 0
        self._server.kill()
        self._server.wait()
        return self._server.pid

    def kill_backend(self) -> int:
        """Kills the process of one connection and gives its number; 0 when there is none."""
        if self._server is None or self._server.poll() is not None:
            return 0
        for child in psutil.Process(self._server.pid).children():
            try:
                if "tester" in " ".join(child.cmdline()):  # its title names the user
                    child.kill()
                    return child.pid
            except psutil.NoSuchProcess:
                continue
        return 0
