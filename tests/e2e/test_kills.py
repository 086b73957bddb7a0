"""The whole service under load, and while its parts are killed with signal 9 or hang: what clients see, what /readyz
says, and that nothing is lost. The load is a short form of `python -m research.benchmarks.load`."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx
import pytest
from forked import start_forked
from patience import PATIENCE_S, wait_until

from research.benchmarks.load.__main__ import depth_of, found_by, run_load
from research.benchmarks.load.application import (
    COLLECTION,
    DATABASE,
    EDGE,
    EMBEDDER,
    WORKER,
    ServiceApplication,
    service_application,
)
from research.benchmarks.load.report import Load, render

sys.path.append(str(Path(__file__).parents[1] / "chaos"))

from chaos_model import tiny_model

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.timeout(600),  # for machines that are busy with other things
    pytest.mark.xdist_group("service under load"),
]

CLIENT_S = 60.0
NAMES = {EMBEDDER: "embedder", EDGE: "index", DATABASE: "catalog"}
TURNED_AWAY = (429, 503)
SEARCHES = (", hybrid", ", words", ", values and second look", ", 2 steps, bare", ", streamed")
WITH_ALL = {
    "instruction": "Identify the landform",
    "values": ["delta", "mountain", "island"],
    "rerank": 10,
    "per_document": 2,
}


@dataclass
class Traffic:
    """Two who search and one who adds documents, again and again, whatever they are answered."""

    application: ServiceApplication
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)  # documents, and the word that only this one has
    answered_at: dict[str, float] = field(default_factory=dict)  # when one of a kind last succeeded

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._count = 0
        whats = (self._search, self._search, self._add)
        self._threads = [threading.Thread(target=self._go_on, args=(what,), daemon=True) for what in whats]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(CLIENT_S + 5)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"

    def wait_for_success(self) -> None:
        """Of what is asked from now on, of each kind."""
        now = time.monotonic()
        for kind in ("search", "add"):
            wait_until(lambda kind=kind: self.answered_at.get(kind, 0) > now, told=lambda: self.statuses)

    def _go_on(self, what: object) -> None:
        with self.application.client(timeout_s=CLIENT_S) as client:
            while not self._ended.wait(0.2):
                what(client)  # type: ignore[operator]

    def _search(self, client: httpx.Client) -> None:
        self._count += 1
        with_all = WITH_ALL if self._count % 2 else {}
        self._ask(client, "search", "/api/v1/search", query=f"silt {self._count}", collection=COLLECTION, **with_all)

    def _add(self, client: httpx.Client) -> None:
        self._count += 1
        word = f"mark{time.monotonic_ns():x}"
        text = f"The river carries silt to the delta. Farmers wait for the flood, {word}. " * 3
        answer = self._ask(client, "add", "/api/v1/documents", text=text, uri=f"text://{word}", collection=COLLECTION)
        if answer is not None:
            self.accepted[answer.json()["document"]["id"]] = word

    def _ask(self, client: httpx.Client, kind: str, path: str, **body: object) -> httpx.Response | None:
        began = time.monotonic()
        try:
            answer = client.post(path, json=body)
        except httpx.HTTPError as error:
            self.faults.append(f"{kind}: {type(error).__name__} after {time.monotonic() - began:.1f} s")
            return None
        self.statuses[kind, answer.status_code] += 1
        if answer.is_success:
            self.answered_at[kind] = began
            return answer
        is_problem = answer.headers["content-type"] == "application/problem+json"
        if answer.status_code not in TURNED_AWAY or not is_problem or "retry-after" not in answer.headers:
            self.faults.append(f"{kind}: {answer.status_code} {dict(answer.headers)} {answer.text[:500]}")
        return None


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceApplication]:
    folder = tmp_path_factory.mktemp("kills")
    model = str(tiny_model(folder / "tiny"))
    with service_application(folder, model=model, start_program=start_forked, GIRCSE_LEASE_S="2") as application:
        if application.postgres is None:
            pytest.skip("PostgreSQL is not installed (package postgresql)")
        yield application


@contextmanager
def traffic(application: ServiceApplication) -> Iterator[Traffic]:
    """What was accepted is there in the end, and what clients were told is what they may be told."""
    with Traffic(application) as going_on:
        going_on.wait_for_success()
        yield going_on
        going_on.wait_for_success()
    assert not going_on.faults, going_on.faults[:5]
    with application.client() as client:
        wait_until(lambda: depth_of(client) == 0, told=lambda: application.log(WORKER)[-2000:])
        lost = [word for document, word in going_on.accepted.items() if document not in found_by(client, word)]
    assert not lost
    assert going_on.accepted


def is_well(application: ServiceApplication, part: str) -> bool:
    """What /readyz says of a part."""
    answer = httpx.get(f"{application.url}/readyz", timeout=PATIENCE_S, trust_env=False)
    checks = answer.json()["checks"]
    assert answer.status_code == (200 if all(checks.values()) else 503)
    return checks[NAMES[part]]


def wait_until_shown(application: ServiceApplication, part: str, *, well: bool) -> None:
    told = f"/readyz does not say that {part} is {'well' if well else 'away'}"
    wait_until(lambda: is_well(application, part) is well, told=lambda: told)


def works_by_itself(application: ServiceApplication, part: str) -> bool:
    """Asked of the part, and not of the service that uses it."""
    if part == DATABASE:
        assert application.postgres is not None
        return application.postgres.is_answering()
    with suppress(httpx.HTTPError):
        return httpx.get(
            f"http://127.0.0.1:{application.ports[EMBEDDER]}/readyz", timeout=PATIENCE_S, trust_env=False
        ).is_success
    return False


@pytest.mark.skipif(importlib.util.find_spec("locust") is None, reason="locust is not installed: pip install locust")
@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_a_mixed_load_is_served_and_nothing_is_lost(application: ServiceApplication, seconds: int) -> None:
    load = run_load(application, seconds=seconds, users=8, rows=50)
    assert not load.faults, "\n".join(load.faults)
    searches = {f"search{rest}" for rest in ("", *SEARCHES)}
    assert {*searches, "rerank", "refine", "embeddings"} <= set(load.kinds)
    assert {"add text", "add file", "delete"} <= set(load.kinds)
    assert load.kept
    assert load.deleted
    assert load.memory_mb.keys() >= {"web", "worker", "embedder", "edge"}
    assert "| search, words |" in render(load)
    assert Load.of_json(json.loads(json.dumps(load.to_json()))) == load


@pytest.mark.parametrize("part", [EMBEDDER, DATABASE])
def test_a_part_is_killed_and_started_again(application: ServiceApplication, part: str) -> None:
    with traffic(application) as going_on:
        application.kill(part)
        wait_until_shown(application, part, well=False)
        wait_until(lambda: going_on.statuses["search", 503])
        application.start(part)
        wait_until(lambda: works_by_itself(application, part))
        wait_until_shown(application, part, well=True)


def test_the_engine_is_killed_and_starts_again_by_itself(application: ServiceApplication) -> None:
    with traffic(application):
        killed = application.process_of(EDGE).pid
        application.kill(EDGE)
        wait_until_shown(application, EDGE, well=True)
        wait_until(lambda: application.process_of(EDGE).pid != killed)


def test_the_worker_is_killed_and_started_again(application: ServiceApplication) -> None:
    """The engine may have been its child: then somebody else starts another one."""
    with traffic(application) as going_on:
        application.kill(WORKER)
        accepted = len(going_on.accepted)
        wait_until(lambda: len(going_on.accepted) > accepted)  # uploads wait for a worker
        application.start(WORKER)


@pytest.mark.parametrize(
    "part", [EMBEDDER, pytest.param(DATABASE, marks=pytest.mark.long), pytest.param(EDGE, marks=pytest.mark.long)]
)
def test_a_part_hangs_for_a_while(application: ServiceApplication, part: str) -> None:
    with traffic(application):
        with application.paused(part):
            wait_until_shown(application, part, well=False)
            others = [each for each in NAMES if each != part]
            assert all(is_well(application, other) for other in others) or part == DATABASE
            assert httpx.get(f"{application.url}/healthz", timeout=PATIENCE_S, trust_env=False).is_success
        wait_until_shown(application, part, well=True)


def test_no_orphans_are_left(application: ServiceApplication) -> None:
    """After all of the above."""
    found = application.run("check")
    assert found.returncode == 0, found.stdout
    found = application.run("doctor")
    assert "FAIL jobs" not in found.stdout, found.stdout
