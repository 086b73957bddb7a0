"""Compares two installations as programs, in turn: start-up, first ingestion, queries idle and meanwhile, load, memory.

Nothing of either is imported: each is asked over HTTP, so that releases of different layouts can be compared.

    python -m research.benchmarks.releases --before OLD/.venv/bin/gircse --after NEW/.venv/bin/gircse --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from tqdm import tqdm

from embedder.command.standard_output import run_program

SAMPLE = Path(__file__).parents[1] / "sample" / "library.jsonl"
_READY = re.compile(r"Ready:.*?(http://127\.0\.0\.1:\d+)")
_START_S, _INGEST_S = 240, 900
_LOOK_S = 0.05
_INGESTIONS, _IDLE_QUERIES, _LOAD_PARTS = 3, 60, 5
_AGAIN_S = 0.02
_PAUSE_S = 0.1  # between the queries of a lone client
_UNITS = {"start-up": "s", "CPU of the start": "s", "first ingestion": "s", "memory": "MB", "load": "queries/s"}


@dataclass(frozen=True, slots=True)
class Service:
    client: httpx.Client
    process: psutil.Process
    started_s: float
    cpu_s: float


@contextmanager
def running(program: str) -> Iterator[Service]:
    """`gircse up` on a fresh home, ready."""
    with tempfile.TemporaryDirectory(prefix="gircse-releases-") as home:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIRCSE_")}
        started = time.perf_counter()
        child = subprocess.Popen(
            [program, "up", "--port", "0"],
            env={**environment, "GIRCSE_HOME": home},
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert child.stdout is not None
            said: list[str] = []
            url = next((found[1] for line in _noting(child.stdout, said) if (found := _READY.search(line))), None)
            if url is None:
                raise SystemExit(f"{program} ended before it was ready: {''.join(said[-20:])}")
            took = time.perf_counter() - started
            threading.Thread(target=child.stdout.read, daemon=True).start()
            process = psutil.Process(child.pid)
            with httpx.Client(base_url=url, timeout=_START_S, trust_env=False) as client:
                yield Service(client, process, took, cpu_of(process))
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(timeout=60)


def _noting(lines: Iterable[str], into: list[str]) -> Iterator[str]:
    for line in lines:
        into.append(line)
        yield line


def family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def cpu_of(process: psutil.Process) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in family(process))


def memory_mb(process: psutil.Process) -> float:
    """Proportional set size of all its processes: shared pages count once."""
    return sum(each.memory_full_info().pss for each in family(process)) / 1e6


def rows(count: int, mark: str) -> bytes:
    """Rows of the sample library; `mark` makes texts of one collection differ from those of another."""
    lines = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    numbered = (lines[number % len(lines)] | {"id": f"{mark}-{number}"} for number in range(count))
    marked = ({**row, "text": f"{mark} {number}. {row['text']}"} for number, row in enumerate(numbered))
    return "\n".join(json.dumps(row) for row in marked).encode()


def queries(count: int) -> list[str]:
    """Of twelve words each, none asked before."""
    lines = [json.loads(line)["text"].split() for line in SAMPLE.read_text("utf-8").splitlines()]
    return [" ".join(words[3:15]) for words in lines if len(words) > 20][:count]


def hand_in(service: Service, collection: str, data: bytes) -> None:
    service.client.post("/api/v1/collections", json={"name": collection}).raise_for_status()
    file = {"file": (f"{collection}.jsonl", data, "application/x-ndjson")}
    service.client.post("/api/v1/documents", data={"collection": collection}, files=file).raise_for_status()


def ingest(service: Service, collection: str, documents: int) -> float:
    """Seconds."""
    started = time.perf_counter()
    hand_in(service, collection, rows(documents, collection))
    wait_for(service, collection)
    return time.perf_counter() - started


def is_taken_in(service: Service, collection: str) -> bool:
    counts = service.client.get("/api/v1/jobs/counts", params={"collection": collection}).raise_for_status().json()
    return not any(counts["states"].get(state, 0) for state in ("queued", "running", "failed"))


def ask(service: Service, query: str, collection: str) -> float | None:
    """Milliseconds; None where it is refused for too much being asked at once."""
    started = time.perf_counter()
    question = {"query": query, "collection": collection, "explain": False, "mode": "dense", "steps": 20}
    response = service.client.post("/api/v1/search", json=question)
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return None
    response.raise_for_status()
    return (time.perf_counter() - started) * 1000


def ask_alone(service: Service, query: str, collection: str) -> float:
    took = ask(service, query, collection)
    if took is None:
        raise SystemExit("A query that was asked alone was refused.")
    return took


def measure(programs: Mapping[str, str], *, documents: int, load_s: float, clients: int) -> dict[str, dict[str, float]]:
    """Both run at once and are asked in turn, so that what else the machine does at the time meets both alike."""
    with ExitStack() as stack:
        services = {side: stack.enter_context(running(program)) for side, program in programs.items()}
        found = {side: {"start-up": each.started_s, "CPU of the start": each.cpu_s} for side, each in services.items()}
        for service in services.values():
            hand_in(service, "warm", rows(8, "warm"))
            wait_for(service, "warm")
        ingested: dict[str, list[float]] = defaultdict(list)
        for number in range(_INGESTIONS):
            for side in sorted(services, reverse=number % 2 == 1):
                ingested[side].append(ingest(services[side], f"first-{number}", documents))
        for side in services:
            found[side]["first ingestion"] = statistics.median(ingested[side])
        texts = queries(300)
        idle: dict[str, list[float]] = defaultdict(list)
        for text in tqdm(texts[:_IDLE_QUERIES], desc="idle", leave=False):
            for side, service in services.items():
                idle[side].append(ask_alone(service, text, "first-0"))
        for side, service in services.items():
            found[side] |= spread("query, idle", idle[side])
            hand_in(service, "second", rows(documents, "second"))
            meanwhile: list[float] = []
            for text in texts[_IDLE_QUERIES:]:
                if is_taken_in(service, "second"):
                    break
                meanwhile.append(ask_alone(service, text, "first-0"))
                time.sleep(_PAUSE_S)
            wait_for(service, "second")
            found[side] |= spread("query, during ingestion", meanwhile)
        asked: dict[str, list[float]] = defaultdict(list)
        for part in range(_LOAD_PARTS):
            for side, service in services.items():
                asked[side] += under_load(service, clients, seconds=load_s / _LOAD_PARTS, mark=str(part))
        for side, service in services.items():
            found[side] |= {"load": len(asked[side]) / load_s} | spread("query, under load", asked[side])
            found[side]["memory"] = memory_mb(service.process)
    return found


def under_load(service: Service, clients: int, *, seconds: float, mark: str) -> list[float]:
    """Each client asks again as soon as it is answered; what is refused is asked again and counts from its first."""
    ends = time.perf_counter() + seconds

    def client(at: int) -> list[float]:
        took: list[float] = []
        while time.perf_counter() < ends:
            started = time.perf_counter()
            while ask(service, f"{mark} {at} {len(took)} what do the people here live on", "first-0") is None:
                time.sleep(_AGAIN_S)
            took.append((time.perf_counter() - started) * 1000)
        return took

    with ThreadPoolExecutor(clients) as pool:
        return [each for took in pool.map(client, range(clients)) for each in took]


def wait_for(service: Service, collection: str) -> None:
    ends = time.perf_counter() + _INGEST_S
    while not is_taken_in(service, collection):
        if time.perf_counter() > ends:
            raise SystemExit(f"The collection {collection} was not taken in within {_INGEST_S} s.")
        time.sleep(_LOOK_S)


def spread(name: str, milliseconds: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(milliseconds, n=20) if len(milliseconds) > 1 else [float("nan")] * 19
    return {f"{name}, median": cuts[9], f"{name}, p95": cuts[18]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="the program gircse of one installation")
    parser.add_argument("--after", required=True, help="the program gircse of the other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--load-s", type=float, default=15)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--out", type=Path, help="a JSON file for all figures")
    options = parser.parse_args()
    kept: dict[str, list[dict[str, float]]] = defaultdict(list)
    sizes = {"documents": options.documents, "load_s": options.load_s, "clients": options.clients}
    for at in tqdm(range(options.rounds), desc="rounds"):
        sides = ("before", "after") if at % 2 == 0 else ("after", "before")
        found = measure({side: str(Path(getattr(options, side)).absolute()) for side in sides}, **sizes)
        for side in sides:
            kept[side].append(found[side])
    if options.out:
        options.out.write_text(json.dumps({"machine": platform.processor(), **kept}, indent=1), "utf-8")
    print(f"Medians of {options.rounds} rounds in turn; {len(os.sched_getaffinity(0))} cores.\n")
    print("| | before | after | after / before, least to most |\n|---|---|---|---|")
    for name in kept["before"][0]:
        before, after = ([each[name] for each in kept[side]] for side in ("before", "after"))
        ratios = sorted(new / old for old, new in zip(before, after, strict=True))
        unit = _UNITS.get(name, "ms")
        cells = " | ".join(f"{statistics.median(each):.3g} {unit}" for each in (before, after))
        print(f"| {name} | {cells} | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |")


if __name__ == "__main__":
    run_program(main)
