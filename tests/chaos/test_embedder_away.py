"""The embedding server is killed under load: clients see 503, /readyz says so at once, and nothing is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from away_application import AwayApplication
from patience import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.timeout(600),
    pytest.mark.long,  # four programs of the application are started
]

GIRCSE = [sys.executable, "-P", "-c", "from app.cli import main; main()"]
KEY = "a-secret"
TEXT = "The river carries silt to the delta. Farmers wait for the flood of {}. "


@contextmanager
def gircse(*arguments: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of the application, and the address that it tells."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIRCSE_")}
    environment = inherited | {"PYTHONPATH": str(Path(__file__).parents[2])} | settings
    with subprocess.Popen([*GIRCSE, *arguments], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, _announced(process)
        finally:
            process.terminate()
            try:
                process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _announced(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"Ready: (http://\S+)", line):
            return found.group(1)
    raise AssertionError("it ended before it was ready")


class Load:
    """Four clients that search, one after the other; what they were answered, and when."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.answers: list[tuple[float, int]] = []
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def since(self, moment: float) -> Counter[int]:
        return Counter(status for at, status in list(self.answers) if at > moment)

    def _ask(self, client: int) -> None:
        count = 0
        with httpx.Client(base_url=self._url, timeout=PATIENCE_S, trust_env=False) as web:
            while not self._stop.wait(0.02):
                count += 1
                asked_at = time.monotonic()
                body = {"query": f"flood {client} {count}", "collection": "library", "steps": 1, "explain": False}
                answer = web.post("/api/v1/search", json=body)
                self.answers.append((asked_at, answer.status_code))


def readiness(url: str) -> int:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=PATIENCE_S, trust_env=False).status_code
    return 0


def wait_until_told(url: str, status: int) -> None:
    wait_until(lambda: readiness(url) == status)


def test_a_killed_embedder_is_told_of_and_nothing_is_lost(
    application_factory: Callable[..., AwayApplication], model: Path, tmp_path: Path
) -> None:
    server = {"GIRCSE_MODEL": str(model), "GIRCSE_EMBEDDER_API_KEY": KEY, "GIRCSE_DTYPE": "float32"}
    with gircse("embedder", "--port", "0", **server) as (process, embedder_url):
        application = application_factory(embedder_url=embedder_url, embedder_api_key=KEY)
        client = {
            "GIRCSE_HOME": str(application.home),
            "GIRCSE_EMBEDDER_URL": embedder_url,
            "GIRCSE_EMBEDDER_API_KEY": KEY,
            "GIRCSE_PORT": "0",
        }
        with application.worker(), gircse("serve", **client) as (_, web_url):
            application.add(TEXT.format(0), name="0.txt")
            application.assert_all_done(documents=1)
            assert readiness(web_url) == readiness(embedder_url) == 200
            with Load(web_url) as load:
                for number in range(1, 13):
                    application.add(TEXT.format(number) * 200, name=f"{number}.txt")
                wait_until(lambda: load.since(0)[200] > 20)
                process.kill()
                process.wait()
                killed_at = time.monotonic()
                wait_until_told(web_url, 503)
                assert readiness(embedder_url) == 0
                wait_until(lambda: load.since(killed_at)[503] > 20)
                assert set(load.since(0)) == {200, 503}
                assert load.since(killed_at)[200] == 0
                port = embedder_url.rpartition(":")[2]
                with gircse("embedder", "--port", port, **server) as (_, again_url):
                    back_at = time.monotonic()
                    wait_until_told(again_url, 200)
                    wait_until_told(web_url, 200)
                    wait_until(lambda: load.since(back_at)[200] > 20)
                    application.assert_all_done(documents=13, timeout_s=240)
