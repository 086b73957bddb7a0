"""The web process of one run: real, killed on demand, and started again; and a client that is patient with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx
from patience import PATIENCE_S
from postgres_server import free_port

_SERVE = "from app.cli import main; main()"
_PATIENCE_S, _POLL_S, _STOP_TIMEOUT_S = 600.0, 0.2, 20.0


class KillableWeb:
    """`gircse serve`, at one port however often it is started."""

    def __init__(self, environment: Mapping[str, str], *, log_file: Path) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIRCSE_")}
        self._environment = {**own, **environment, "GIRCSE_MCP": "false"}
        self._log_file = log_file
        self._port = free_port()
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", trust_env=False, timeout=PATIENCE_S)
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._client.close()

    def kill(self) -> None:
        """`kill -9`, once it answers: else it would be killed at its start alone."""
        self.ask("GET", "/healthz")
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.kills += 1
        self._start()

    def ask(self, method: str, path: str, **given: Any) -> Any:
        """As often as it takes: whether a request that was cut off was carried out is not known."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = self._client.request(method, path, **given)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code < 500:
                answer.raise_for_status()
                return answer.json() if answer.content else None
            assert time.monotonic() < deadline, self._log_file.read_text("utf-8")[-3_000:]
            time.sleep(_POLL_S)

    def _start(self) -> None:
        command = [sys.executable, "-P", "-c", _SERVE, "serve", "--port", str(self._port)]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
