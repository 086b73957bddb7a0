"""The processes of one run: real workers, the engine with a proxy before it, PostgreSQL; kills and restarts.

Workers are forked from a process that has imported the program once, so that a restart costs no import of torch.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Self

import psutil
from chaos_plan import Kill, Target
from chaos_postgres import KillablePostgres
from chaos_proxy import FailingProxy
from preloaded import PRELOADED
from qdrant_servers import QdrantServer

from app.cli import main
from app.edge.connection import read_connection, write_connection

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(PRELOADED)
_TICK_S = 0.02
_INTERPOSE_S = 0.002
_TARGET_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 20


def begin_imports() -> None:
    """Starts the process that workers are forked from; its imports go on beside whatever the caller does next."""
    forkserver.ensure_running()


def run_worker_program(environment: Mapping[str, str], log_file: str) -> None:
    """`gircse worker` with this environment, in the process that calls it."""
    for name in [name for name in os.environ if name.startswith("GIRCSE_")]:
        del os.environ[name]
    os.environ.update(environment)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    sys.argv = ["gircse", "worker"]
    main()


@dataclass
class _Slot:
    """A place for one worker; its process changes with every kill."""

    log_file: Path
    process: ForkServerProcess | None = None
    start_at: float = 0.0
    unexpected_exits: list[int | None] = field(default_factory=list)


class KillableQdrant:
    """A Qdrant server behind a proxy: one that the tests have started is killed, and from a named one they are cut off
    for a while."""

    def __init__(self, server: QdrantServer, proxy: FailingProxy) -> None:
        self._node = server.nodes[0] if server.nodes else None
        self._proxy = proxy

    def kill(self) -> int:
        """The number of the killed process, 1 where there is none; 0 while it is away."""
        if self._node is None:
            was_cut, self._proxy.is_cut = self._proxy.is_cut, True
            return 0 if was_cut else 1
        pid = self._node.pid
        self._node.kill()
        return pid

    def ensure_running(self) -> None:
        self._proxy.is_cut = False
        if self._node is not None:
            self._node.launch()

    def wait(self) -> None:
        """Until it answers."""
        self._proxy.is_cut = False
        if self._node is not None:
            self._node.start()


class Supervisor:
    """Keeps the workers (and PostgreSQL) running as a service manager would, and kills on demand."""

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        *,
        logs: Path,
        workers: int,
        proxy: FailingProxy | None = None,
        postgres: KillablePostgres | None = None,
        qdrant: KillableQdrant | None = None,
    ) -> None:
        """`proxy` is put before the embedded engine; `qdrant` stands behind its own."""
        self.kills: Counter[Target] = Counter()
        self._edge_folder = home / "edge"
        self._environment = dict(environment)
        self._slots = [_Slot(logs / f"worker-{number}.log") for number in range(workers)]
        self._postgres = postgres
        self._postgres_start_at = 0.0
        self._qdrant = qdrant
        self._qdrant_start_at = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._supervise, name="supervisor", daemon=True)]
        if proxy is not None:
            self._threads.append(threading.Thread(target=self._put_in_between, args=(proxy,), daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        processes = [slot.process for slot in self._slots if slot.process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_STOP_TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join()

    @property
    def unexpected_exits(self) -> list[int | None]:
        """Exit codes of workers that ended without being killed."""
        return [code for slot in self._slots for code in slot.unexpected_exits]

    def pid_of(self, worker: int) -> int:
        """0 while it is not running."""
        process = self._slots[worker].process
        return 0 if process is None or process.pid is None else process.pid

    def worker_logs(self) -> str:
        return "\n".join(slot.log_file.read_text("utf-8") for slot in self._slots if slot.log_file.exists())

    def kill(self, kill: Kill) -> int:
        """`kill -9`, once the target is there to be killed. Returns the number of the process."""
        deadline = time.monotonic() + _TARGET_TIMEOUT_S
        while not (pid := self._try_kill(kill)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"There was no {kill.target} to kill for {_TARGET_TIMEOUT_S} s.")
            time.sleep(_TICK_S)
        self.kills[kill.target] += 1
        return pid

    def _try_kill(self, kill: Kill) -> int:
        """The number of the process; 0 when there was none."""
        with self._lock:
            if kill.target is Target.WORKER:
                return self._kill_worker(self._slots[kill.worker], kill.pause_s)
            if kill.target is Target.EDGE and self._qdrant is not None:
                self._qdrant_start_at = time.monotonic() + kill.pause_s
                return self._qdrant.kill()
            if kill.target is Target.EDGE:
                return self._kill_edge()
            if self._postgres is None:
                raise ValueError(f"{kill.target} cannot be killed: this run has no PostgreSQL.")
            if kill.target is Target.BACKEND:
                return self._postgres.kill_backend()
            self._postgres_start_at = time.monotonic() + kill.pause_s
            return self._postgres.kill()

    @staticmethod
    def _kill_worker(slot: _Slot, pause_s: float) -> int:
        if slot.process is None or slot.process.pid is None or not slot.process.is_alive():
            return 0
        pid = slot.process.pid
        slot.process.kill()
        slot.process.join()
        slot.process, slot.start_at = None, time.monotonic() + pause_s
        return pid

    def _kill_edge(self) -> int:
        connection = read_connection(self._edge_folder)
        if connection is None:
            return 0
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(connection.pid)
            # The file outlives its server, whose number may have gone to another process.
            if process.status() != psutil.STATUS_ZOMBIE and "app.edge.server" in process.cmdline():
                process.kill()
                return connection.pid
        return 0

    def _supervise(self) -> None:
        while not self._stop.wait(_TICK_S):
            with self._lock:
                for slot in self._slots:
                    self._keep_running(slot)
                if self._postgres is not None and time.monotonic() >= self._postgres_start_at:
                    self._postgres.ensure_running()
                if self._qdrant is not None and time.monotonic() >= self._qdrant_start_at:
                    self._qdrant.ensure_running()

    def _keep_running(self, slot: _Slot) -> None:
        if slot.process is not None and not slot.process.is_alive():
            slot.unexpected_exits.append(slot.process.exitcode)
            slot.process = None
        if slot.process is None and time.monotonic() >= slot.start_at:
            slot.process = _CONTEXT.Process(
                target=run_worker_program, args=(self._environment, str(slot.log_file)), daemon=True
            )
            slot.process.start()

    def _put_in_between(self, proxy: FailingProxy) -> None:
        """Every server writes where it listens; a client that looks there 50 ms later finds the proxy instead."""
        while not self._stop.wait(_INTERPOSE_S):
            connection = read_connection(self._edge_folder)
            if connection is not None and connection.port != proxy.port:
                proxy.target_port = connection.port
                write_connection(self._edge_folder, replace(connection, port=proxy.port))


def processes_of(home: Path) -> list[psutil.Process]:
    """Running processes that were started for this home."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if str(home) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
