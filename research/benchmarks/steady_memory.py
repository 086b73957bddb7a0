"""Memory of `gircse up` with the sample library, and of a web process beside an embedding server, when they are idle.

The own memory of each process (anonymous pages), as Linux counts it: after the sample library was taken in, after
searches and pages, and after a restart. Run it as `python -m research.benchmarks.steady_memory`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

from embedder.command.standard_output import run_program
from research.benchmarks.load.application import free_port, wait_until
from research.benchmarks.serving_memory import memory_of
from research.benchmarks.startup import GIRCSE

_IDLE_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=30, help="each with a page beside it")
    options = parser.parse_args()
    print("| | gircse: MB | engine: MB | reader: MB | together: MB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        home = {"GIRCSE_HOME": folder}
        with running("up", "--sample", environment=home) as (process, url):
            wait_until_taken_in(url)
            show("`gircse up`, the sample library taken in", process)
            use(url, options.searches)
            show(f"after {options.searches} searches and pages", process)
        with running("up", environment=home) as (process, url):
            use(url, options.searches)
            show("restarted, after as many", process)
        with running("embedder", environment=home) as (_, embedder_url):
            beside = {**home, "GIRCSE_EMBEDDER_URL": embedder_url}
            with running("serve", environment=beside) as (process, url):
                use(url, options.searches)
                show("`gircse serve` beside an embedding server, after as many", process)


@contextmanager
def running(*arguments: str, environment: Mapping[str, str]) -> Iterator[tuple[psutil.Process, str]]:
    """A command that serves, once it is ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = Path(environment["GIRCSE_HOME"]) / f"{arguments[0]}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-P", *GIRCSE, *arguments, "--port", str(port)],
            env={**os.environ, **environment},
            stdout=written,
            stderr=written,
        )
    try:
        wait_until(
            lambda: process.poll() is not None or is_ready(url), told=lambda: log.read_text(encoding="utf-8")[-2000:]
        )
        if process.poll() is not None:
            raise RuntimeError(log.read_text(encoding="utf-8")[-2000:])
        yield psutil.Process(process.pid), url
    finally:
        process.terminate()
        process.wait()


def is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=5):
            return True
    except (URLError, OSError):
        return False


def wait_until_taken_in(url: str) -> None:
    def is_taken_in() -> bool:
        with urlopen(f"{url}/api/v1/documents/counts?collection=sample") as answer:
            counts = json.load(answer)
        return counts["total"] and not counts["states"]["queued"]

    wait_until(is_taken_in, timeout_s=300)


def use(url: str, searches: int) -> None:
    for number in range(searches):
        body = json.dumps({"query": f"where do birds of kind {number} go in winter", "collection": "sample"}).encode()
        for request in (Request(f"{url}/api/v1/search", body, {"content-type": "application/json"}), Request(url)):
            with urlopen(request) as answer:
                answer.read()


def show(what: str, process: psutil.Process) -> None:
    time.sleep(_IDLE_S)
    own = {"engine": 0.0, "reader": 0.0}
    for child in process.children(recursive=True):
        kind = "reader" if {"ingest.readers.child", "ingest.recurring.sync_child"} & set(child.cmdline()) else "engine"
        own[kind] += memory_of(child.pid).own
    itself = memory_of(process.pid).own
    print(
        f"| {what} | {itself:.0f} | {own['engine']:.0f} | {own['reader']:.0f} | {itself + sum(own.values()):.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    run_program(main)
