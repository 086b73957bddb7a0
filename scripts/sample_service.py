"""Runs `gircse` in an empty home on a free port, for scripts that query the real service."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

START_TIMEOUT_S = 1800  # for a busy machine; an idle one takes two minutes
POLL_S = 0.5


@contextmanager
def sample_url(description: str | None) -> Iterator[str]:
    """The service given by --url, or a fresh one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", help="a running service with the whole sample library, such as http://127.0.0.1:7860")
    url = parser.parse_args().url
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by default, SIGTERM would leave the service running
    if url is not None:
        yield url.rstrip("/")
    else:
        with running_sample() as url:
            yield url


@contextmanager
def running_sample() -> Iterator[str]:
    """Starts a service and yields its address once the sample library is searchable; deletes everything afterwards."""
    with running_program("up", "--sample") as program:
        program.wait_until_idle()
        yield program.url


@dataclass(frozen=True, slots=True)
class RunningProgram:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until_idle(self) -> None:
        """Waits until the service is ready and no job is queued, running or failed; exits after START_TIMEOUT_S."""
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            for _ in _polls(self.process, self.log):
                is_ready = client.get("/readyz").status_code == 200
                if is_ready and not any(_jobs(client, state) for state in ("queued", "running", "failed")):
                    break


@contextmanager
def running_program(*command: str, **settings: str) -> Iterator[RunningProgram]:
    """Starts `gircse` with this command in an empty home on a free port; deletes everything afterwards. settings:
    further environment variables."""
    with tempfile.TemporaryDirectory(prefix="gircse-service-") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIRCSE_")}
        log = Path(home) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", "from app.cli import main; main()", *command, "--port", "0"],
                env={**environment, "GIRCSE_HOME": home, "PYTHONUNBUFFERED": "1", **settings},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                yield RunningProgram(_wait_for_address(process, log), process, log)
            finally:
                process.terminate()
                process.wait(timeout=60)


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    rest = ""
    for _ in _polls(process, log):
        _, _, rest = log.read_text(encoding="utf-8").partition("Ready: ")
        if "\n" in rest:
            break
    return rest.split()[0]


def _jobs(client: httpx.Client, state: str) -> list[object]:
    return client.get("/api/v1/jobs", params={"state": state, "limit": 1}).raise_for_status().json()


def _polls(process: subprocess.Popen[bytes], log: Path) -> Iterator[None]:
    """Yields once per poll until the caller stops iterating. Exits with the service's log if it ends or takes too
    long.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        yield
        time.sleep(POLL_S)
    sys.exit(f"The service did not become ready (exit code {process.poll()}):\n{log.read_text(encoding='utf-8')}")
