"""The service as it is run: embedding server, web and worker as processes, with access control and a key, on loopback.

PostgreSQL is real where it is installed, else the catalog is SQLite; the vectors are in the embedded engine. Every part
can be killed, stopped for a while and started again.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import httpx
import psutil

from embedder.model_info import DEFAULT_MODEL

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests" / "chaos"))

from chaos_postgres import KillablePostgres, postgres_programs  # noqa: E402 - a server of the tests' own

GIRCSE = [sys.executable, "-P", "-c", "from app.cli import main; main()"]
EMBEDDER, WEB, WORKER, EDGE, DATABASE = "embedder", "web", "worker", "edge", "postgres"
COLLECTION = "load"
_NOT_INHERITED = ("GIRCSE_", "HF_", "TRANSFORMERS_", "GRADIO_")
_COMMANDS = {EMBEDDER: ["embedder"], WEB: ["serve"], WORKER: ["worker"]}
_START_S = 240


class Program(Protocol):
    """A process of ours; subprocess.Popen is one."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Start(Protocol):
    """Begins `gircse` with these arguments; all that it says goes to `log`."""

    def __call__(self, arguments: Sequence[str], *, environment: Mapping[str, str], log: IO[bytes]) -> Program: ...


def start_command(arguments: Sequence[str], *, environment: Mapping[str, str], log: IO[bytes]) -> Program:
    return subprocess.Popen(
        [*GIRCSE, *arguments], env=environment, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL
    )


@dataclass
class ServiceApplication:
    """`start`, `kill` and `pause` know the parts by their names."""

    folder: Path
    opened: ExitStack
    model: str
    postgres: KillablePostgres | None
    settings: Mapping[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Program] = field(default_factory=dict)
    start_program: Start = start_command
    has_embedder: bool = True
    embedder_key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[WEB]}"

    @property
    def admin_key(self) -> str:
        return (self.home / "admin-secret").read_text("ascii").strip()

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        own = {
            "GIRCSE_HOME": str(self.home),
            "GIRCSE_MODEL": self.model,
            "GIRCSE_ACCESS_CONTROL": "true",
            "GIRCSE_LEASE_S": "10",
            "NO_PROXY": "*",
        }
        if self.has_embedder:
            own["GIRCSE_EMBEDDER_URL"] = f"http://127.0.0.1:{self.ports[EMBEDDER]}"
            own["GIRCSE_EMBEDDER_API_KEY"] = self.embedder_key
        if self.postgres is not None:
            own["GIRCSE_DATABASE_URL"] = self.postgres.url
        return {**inherited, **own, **self.settings}

    def start(self, part: str) -> None:
        """Begins it; `wait_until_ready` says when it works."""
        if part == DATABASE:
            assert self.postgres is not None
            self.postgres.ensure_running()
            return
        port = [] if part == WORKER else ["--port", str(self.ports[part])]
        with self._log_file(part).open("ab") as log:
            process = self.start_program([*_COMMANDS[part], *port], environment=self.environment, log=log)
        self.processes[part] = process
        self.opened.callback(_stop, process)

    def kill(self, part: str) -> None:
        """With signal 9. The embedded engine is started again by its next client, the others are not."""
        if part == DATABASE:
            assert self.postgres is not None
            assert self.postgres.kill()
        elif part == EDGE:
            self.process_of(EDGE).kill()
        else:
            self.processes[part].kill()
            self.processes[part].wait()

    @contextmanager
    def paused(self, part: str) -> Iterator[None]:
        """It hangs: takes connections, and answers none."""
        processes = self.tree_of(part)
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    def process_of(self, part: str) -> psutil.Process:
        if part == EDGE:
            return next(process for process in self._edges() if process.status() != psutil.STATUS_ZOMBIE)
        return psutil.Process(self.postgres.pid if part == DATABASE and self.postgres else self.processes[part].pid)

    def tree_of(self, part: str) -> list[psutil.Process]:
        """With its children, but for the engine's process, which is a part of its own."""
        found = self.process_of(part)
        edges = {each.pid for each in self._edges()}
        return [found, *(child for child in found.children(recursive=True) if child.pid not in edges)]

    def _edges(self) -> list[psutil.Process]:
        found = []
        for part in (WEB, WORKER):
            with suppress(psutil.NoSuchProcess, KeyError):
                for child in psutil.Process(self.processes[part].pid).children():
                    if "app.edge.server" in child.cmdline():
                        found.append(child)
        return found

    def memory_mb(self) -> dict[str, float]:
        """Of every part that runs: what is its own and its children's."""
        found = {}
        for part in (WEB, WORKER, EMBEDDER, EDGE, DATABASE):
            with suppress(psutil.Error, StopIteration, KeyError):
                if part != DATABASE or self.postgres is not None:
                    found[part] = sum(map(_own_memory, self.tree_of(part))) / 1e6
        return found

    def client(self, key: str | None = None, *, timeout_s: float = 30) -> httpx.Client:
        headers = {"authorization": f"Bearer {key or self.admin_key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)

    def log(self, part: str) -> str:
        return self._log_file(part).read_text("utf-8", "replace")

    def _log_file(self, part: str) -> Path:
        return self.folder / f"{part}.log"

    def wait_until_ready(self) -> None:
        wait_until(lambda: self._is_answering(), told=lambda: self._last_words(), timeout_s=_START_S)
        wait_until(lambda: "Working." in self.log(WORKER), told=lambda: self._last_words(), timeout_s=_START_S)

    def _is_answering(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", trust_env=False, timeout=10).status_code == httpx.codes.OK
        return False

    def _last_words(self) -> str:
        return "\n".join(f"{part}: {self.log(part)[-1500:]}" for part in self.processes)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`gircse …` with the settings of the service; `stdout` has all that it said."""
        with tempfile.TemporaryFile() as said:
            process = self.start_program(arguments, environment=self.environment, log=said)
            code = process.wait(_START_S)
            said.seek(0)
            return subprocess.CompletedProcess(arguments, code, said.read().decode())

    def add_key(self, name: str, role: str) -> str:
        """A new user's, who may see the collection of the load alone. Another load may have had one of this name."""
        with self.client() as client:
            name = f"{name}-{time.time_ns()}"
            user = {"name": name, "role": role, "collections": [COLLECTION]}
            client.post("/api/v1/users", json=user).raise_for_status()
            answer = client.post("/api/v1/keys", json={"user": name}).raise_for_status().json()
        return str(answer["secret"])

    def add_collection(self) -> None:
        with self.client() as client:
            client.post("/api/v1/collections", json={"name": COLLECTION}).raise_for_status()


@contextmanager
def service_application(
    folder: Path,
    *,
    model: str = DEFAULT_MODEL,
    has_embedder: bool = True,
    start_program: Start = start_command,
    **settings: str,
) -> Iterator[ServiceApplication]:
    """All parts started and ready, with an empty collection; `settings` are further variables of the environment.

    Without an embedder of its own web and worker hold a model each.
    """
    with ExitStack() as opened:
        postgres = opened.enter_context(KillablePostgres()) if _has_postgres() else None
        ports = {part: free_port() for part in (EMBEDDER, WEB)}
        application = ServiceApplication(
            folder,
            opened,
            model,
            postgres,
            settings=settings,
            ports=ports,
            has_embedder=has_embedder,
            start_program=start_program,
        )
        for part in (EMBEDDER, WEB, WORKER) if has_embedder else (WEB, WORKER):
            application.start(part)
        application.wait_until_ready()
        application.add_collection()
        yield application


def end_in_order() -> None:
    """At SIGTERM, too, every process that was started is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def wait_until(is_so: Callable[[], Any], *, told: Callable[[], object] = str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"It did not happen in {timeout_s:g} s. {told()}"
        time.sleep(0.1)


def metric(text: str, name: str) -> float:
    """The value of a metric without labels."""
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found, f"/metrics has no {name}"
    return float(found.group(1))


def _own_memory(process: psutil.Process) -> int:
    """In bytes; 0 of one that has just ended, as connections of a database do."""
    try:
        return process.memory_full_info().uss
    except psutil.NoSuchProcess:
        return 0


def _stop(process: Program) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _has_postgres() -> bool:
    return postgres_programs() is not None and importlib.util.find_spec("psycopg") is not None


def free_port() -> int:
    """Below the ports that the system gives to clients: a program that takes a minute to start still finds it free."""
    while True:
        port = random.randint(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
