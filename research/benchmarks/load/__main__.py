"""A mixed load on a whole service that it starts and stops: `python -m research.benchmarks.load --seconds 60`.

Exit code 1 where a request hung or failed with anything but 429 and 503, where what was accepted cannot be found at the
end or what was deleted can, or where the queue does not empty.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from embedder.command.standard_output import run_program
from embedder.evaluation.machine import cpu_name
from embedder.model_info import DEFAULT_MODEL
from research.benchmarks.load.application import (
    COLLECTION,
    ROOT,
    ServiceApplication,
    end_in_order,
    metric,
    service_application,
    wait_until,
)
from research.benchmarks.load.report import Kind, Load, failures_of, render, thirds

LOOK_S = 2.0
DRAIN_S = 120.0
MOST_LOOKED_FOR = 300  # of the documents kept, and of those deleted
ROWS_BEFORE = 200
WARM_UP_S = 3.0


@dataclass
class Watch:
    application: ServiceApplication
    memory_mb: list[Mapping[str, float]] = field(default_factory=list)
    queue_depth: list[float] = field(default_factory=list)

    @contextmanager
    def looking(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._look, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _look(self, ended: threading.Event) -> None:
        with self.application.client(timeout_s=10) as client:
            while not ended.wait(LOOK_S):
                self.memory_mb.append(self.application.memory_mb())
                with suppress(httpx.HTTPError):
                    self.queue_depth.append(depth_of(client))


def depth_of(client: httpx.Client) -> float:
    """Jobs that wait or are being done."""
    text = client.get("/metrics").raise_for_status().text
    running = next(line for line in text.splitlines() if line.startswith('gircse_jobs{state="running"}'))
    return metric(text, "gircse_queue_depth") + float(running.split()[-1])


def run_load(application: ServiceApplication, *, seconds: float, users: int, rows: int = ROWS_BEFORE) -> Load:
    with application.client() as client:
        model = client.get("/v1/models").raise_for_status().json()["data"][0]["id"]
    keys = {
        "LOAD_READER_KEY": application.add_key("reader", "reader"),
        "LOAD_EDITOR_KEY": application.add_key("editor", "editor"),
    }
    fill(application, rows)
    watch = Watch(application)
    with watch.looking():
        record = run_locust(application, {**keys, "LOAD_MODEL": model}, seconds=seconds, users=users)
    started = time.monotonic()
    with application.client() as client:
        wait_until(lambda: depth_of(client) == 0, told=lambda: "The queue does not empty.", timeout_s=DRAIN_S)
        drain_s = time.monotonic() - started
        faults = missing_or_left(client, record["kept"], record["deleted"])
    kinds = {name: Kind.of(answers, seconds) for name, answers in record["kinds"].items()}
    differences = application.run("check")
    if differences.returncode:
        faults.append(f"gircse check: {differences.stdout[-1000:]}")
    return Load(
        seconds=seconds,
        users=users,
        machine=f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}",
        catalog="SQLite" if application.postgres is None else "PostgreSQL",
        kinds=kinds,
        memory_mb=thirds(watch.memory_mb),
        most_memory_mb={
            name: round(max(each.get(name, 0) for each in watch.memory_mb), 1)
            for name in sorted({name for each in watch.memory_mb for name in each})
        },
        queue_depth=watch.queue_depth,
        kept=len(record["kept"]),
        deleted=len(record["deleted"]),
        drain_s=round(drain_s, 1),
        faults=failures_of(kinds) + faults,
    )


def fill(application: ServiceApplication, rows: int) -> None:
    """What is searched from the start."""
    lines = (ROOT / "sample" / "library.jsonl").read_text("utf-8").splitlines()[:rows]
    with application.client() as client:
        file = ("sample.jsonl", "\n".join(lines).encode(), "application/x-ndjson")
        sent = client.post("/api/v1/documents", data={"collection": COLLECTION}, files={"file": file})
        sent.raise_for_status()
        wait_until(lambda: depth_of(client) == 0, timeout_s=DRAIN_S)


def run_locust(application: ServiceApplication, given: Mapping[str, str], *, seconds: float, users: int) -> dict:
    """In a process of its own, since it changes Python's sockets."""
    record = application.folder / "record.json"
    command = [
        *[sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("locustfile.py")), "--headless"],
        *["--host", application.url, "--users", str(users), "--spawn-rate", str(users), "--run-time", f"{seconds:g}s"],
        *["--stop-timeout", "40", "--only-summary", "--exit-code-on-error", "0", "--loglevel", "WARNING"],
    ]
    environment = {**os.environ, **given, "LOAD_RECORD": str(record), "NO_PROXY": "*"}
    ended = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 120, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(record.read_text("utf-8"))


def missing_or_left(client: httpx.Client, kept: Mapping[str, str], deleted: Mapping[str, str]) -> list[str]:
    faults = []
    for document, word in list(kept.items())[-MOST_LOOKED_FOR:]:
        if document not in found_by(client, word):
            state = client.get(f"/api/v1/documents/{document}").json()
            faults.append(f"{document} was accepted and is not found by its word {word}: {state}")
    for document, word in list(deleted.items())[-MOST_LOOKED_FOR:]:
        if document in found_by(client, word) or client.get(f"/api/v1/documents/{document}").status_code != 404:
            faults.append(f"{document} was deleted and is still there, by its word {word}")
    return faults


def found_by(client: httpx.Client, word: str) -> set[str]:
    question = {"query": word, "collection": COLLECTION, "mode": "sparse", "explain": False}
    answer = client.post("/api/v1/search", json=question).raise_for_status().json()
    return {hit["document"]["id"] for hit in answer["hits"]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.benchmarks.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=8, help="of whom each asks about twice a second")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers, as docs/evaluation/load.json")
    parser.add_argument("--show", type=Path, help="only print the table of such a file")
    options = parser.parse_args()
    if options.show:
        print(render(Load.of_json(json.loads(options.show.read_text("utf-8")))))
        return
    end_in_order()
    with (
        tempfile.TemporaryDirectory(prefix="gircse-load-") as folder,
        service_application(Path(folder), model=options.model) as application,
    ):
        load = run_load(application, seconds=options.seconds, users=options.users)
    print(render(load))
    if options.out:
        options.out.write_text(json.dumps(load.to_json(), indent=1) + "\n", encoding="utf-8")
    for fault in load.faults:
        print(f"FAIL {fault}")
    sys.exit(1 if load.faults else 0)


if __name__ == "__main__":
    run_program(main)
