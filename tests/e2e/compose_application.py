"""The services of docker-compose.yml as processes of this machine: the same commands, the same environment.

What a container would find is put in its place: the names of services become addresses on loopback, /run/secrets a
folder that `make secrets` filled, /data one folder. PostgreSQL is real; the embedded engine answers for Qdrant.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from forked import ForkedProgram
from gircse_program import _NOT_INHERITED
from patience import PATIENCE_S
from postgres_server import free_port, postgres_server
from sqlalchemy import create_engine, text

from app.edge import EdgeProcess

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
_DEADLINE_S = 240


@dataclass
class ComposeApplication:
    """`start(service)` begins a process; `log(service)` is what it has said so far."""

    folder: Path
    opened: ExitStack
    qdrant_port: int
    ports: dict[str, int] = field(default_factory=lambda: {"postgres": free_port(), "embedder": free_port()})
    web_port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    processes: dict[str, ForkedProgram] = field(default_factory=dict)

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text("ascii")

    def environment(self, service: str) -> dict[str, str]:
        given = {name: self._here(str(value)) for name, value in COMPOSE["services"][service]["environment"].items()}
        if "GIRCSE_HOST" in given:
            given |= {"GIRCSE_HOST": "127.0.0.1", "GIRCSE_PORT": str(self.web_port)}
        if "GIRCSE_WORKER_METRICS_PORT" in given:
            given["GIRCSE_WORKER_METRICS_PORT"] = str(self.metrics_port)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        return {**inherited, "GIRCSE_HOME": str(self.folder / "home"), "NO_PROXY": "*", **given}

    def _here(self, value: str) -> str:
        value = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
        value = value.replace("/run/secrets/", f"{self.folder}/secrets/")
        value = value.replace("@postgres/", f"@127.0.0.1:{self.ports['postgres']}/")
        value = value.replace("//qdrant:6333", f"//127.0.0.1:{self.qdrant_port}")
        return value.replace("//embedder:7861", f"//127.0.0.1:{self.ports['embedder']}")

    def start(self, service: str) -> ForkedProgram:
        program, *arguments = COMPOSE["services"][service]["command"]
        assert program == "gircse"
        here = {"0.0.0.0": "127.0.0.1", "7861": str(self.ports["embedder"])}
        with self._log_file(service).open("ab") as log:
            process = ForkedProgram(
                [here.get(argument, argument) for argument in arguments],
                environment=self.environment(service), stdout=log, stderr=log,
            )  # fmt: skip
        self.processes[service] = process
        self.opened.callback(_stop, process)
        return process

    def log(self, service: str) -> str:
        return self._log_file(service).read_text("utf-8", "replace")

    def _log_file(self, service: str) -> Path:
        return self.folder / f"{service}.log"

    def wait_for_log(self, service: str, words: str) -> None:
        self.wait(lambda: words in self.log(service), what=f"{words!r} in the log of {service}")

    def wait(self, is_so: Any, *, what: str) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not is_so():
            logs = {service: self.log(service)[-2000:] for service in self.processes}
            assert time.monotonic() < deadline, (what, logs)
            assert all(process.poll() is None for process in self.processes.values()), (what, logs)
            time.sleep(0.1)

    def start_postgres(self) -> None:
        """With the user and the password of the compose file, and nobody let in without it."""
        server = self.opened.enter_context(postgres_server(self.ports["postgres"]))
        engine = create_engine(f"{server}/postgres".replace("://", "+psycopg://"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            password = self.secret("postgres_password")
            connection.execute(text(f"CREATE ROLE gircse LOGIN PASSWORD '{password}'"))
            rules = Path(str(connection.scalar(text("SHOW hba_file"))))
            rules.write_text("host gircse gircse 127.0.0.1/32 scram-sha-256\n" + rules.read_text("utf-8"), "utf-8")
            connection.execute(text("SELECT pg_reload_conf()"))
            connection.execute(text("CREATE DATABASE gircse OWNER gircse"))
        engine.dispose()

    def client(self, headers: Mapping[str, str] | None = None) -> httpx.Client:
        """Asks web as its administrator."""
        shown = {"authorization": f"Bearer {self.secret('admin_secret')}"} if headers is None else headers
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.web_port}", headers=shown, timeout=PATIENCE_S, trust_env=False
        )


def _stop(process: ForkedProgram) -> None:
    process.terminate()
    try:
        process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def compose_application(folder: Path) -> Iterator[ComposeApplication]:
    """Secrets made, Qdrant's place taken; nothing of the compose file is started yet."""
    subprocess.run([str(ROOT / "scripts/make_secrets.sh"), str(folder / "secrets")], check=True, capture_output=True)
    with ExitStack() as opened:
        edge = opened.enter_context(EdgeProcess(folder / "qdrant")).start()
        key = folder / "secrets/qdrant_api_key"
        key.chmod(0o600)
        key.write_text(edge.token, "ascii")
        yield ComposeApplication(folder=folder, opened=opened, qdrant_port=edge.port)
