"""How long searches take while a collection is loaded, before, during and after `gircse optimize`; embedded engine.

Prints a Markdown table: `python benchmarks/optimize.py --points 70000`. The vectors are made up: clusters on a sphere.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from app.collections.optimize import optimize_index
from app.edge import EdgeProcess
from app.types.documents import Point
from app.vectors import QdrantVectorIndex

NAME = "docs"
CLUSTERS, SPREAD = 500, 0.7  # so that neighbours are as near as those of texts: cosines of 0.6 and more
EVERY_S = 0.05
PHASE_S = 10.0
QUERIES = 100


def vectors(count: int, dimension: int, *, seed: int) -> np.ndarray:
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, dimension))
    random = np.random.default_rng(seed)
    rows = centres[random.integers(CLUSTERS, size=count)] + SPREAD * random.standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def load(data_dir: Path, count: int, dimension: int) -> float:
    """In a process of its own, as a worker is; the seconds it took."""
    index, started = QdrantVectorIndex.over_edge(EdgeProcess(data_dir)), time.perf_counter()
    rows = vectors(count, dimension, seed=1)
    for start in range(0, count, 1000):
        points = [
            Point(
                str(uuid.UUID(int=n)),
                rows[n].tolist(),
                {"page_content": f"chunk {n} " * 60, "metadata": {"document_id": f"d{n // 10}"}},
            )
            for n in range(start, min(count, start + 1000))
        ]
        index.upsert(NAME, points)
    index.close()
    return time.perf_counter() - started


@contextmanager
def searching(index: QdrantVectorIndex, queries: np.ndarray) -> Iterator[list[float]]:
    """A search every 50 ms; how many milliseconds each took."""
    latencies: list[float] = []
    stop = threading.Event()

    def search_on() -> None:
        while not stop.wait(EVERY_S):
            query, started = queries[len(latencies) % len(queries)].tolist(), time.perf_counter()
            index.search(NAME, query, limit=10)
            latencies.append((time.perf_counter() - started) * 1000)

    thread = threading.Thread(target=search_on)
    thread.start()
    try:
        yield latencies
    finally:
        stop.set()
        thread.join()


def print_row(phase: str, latencies: list[float], remark: str = "") -> None:
    percentiles = " | ".join(f"{np.percentile(latencies, percent):.0f}" for percent in (50, 95, 99, 100))
    print(f"| {phase} | {len(latencies)} | {percentiles} | {remark} |", flush=True)


def measure(data_dir: Path, count: int, dimension: int) -> None:
    queries = vectors(QUERIES, dimension, seed=2)
    with EdgeProcess(data_dir) as edge, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        index = QdrantVectorIndex.over_edge(edge)
        index.create(NAME, dimension=dimension)
        phase: Callable[..., None] = partial(time.sleep, PHASE_S)
        with searching(index, queries) as latencies:
            seconds = pool.submit(load, data_dir, count, dimension).result()
        print_row("loading", latencies, f"{count / seconds:.0f} points/s")
        with searching(index, queries) as latencies:
            phase()
        print_row("before", latencies)
        with searching(index, queries) as latencies:
            report = optimize_index(index, NAME)
        print_row(
            "optimising", latencies, f"{report.seconds:.0f} s, {report.after.indexed_vectors - count:,} in the graph"
        )
        with searching(index, queries) as latencies:
            phase()
        print_row("after", latencies)
        index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=70_000)
    parser.add_argument("--dimension", type=int, default=384)
    arguments = parser.parse_args()
    print("| phase | searches | p50 ms | p95 ms | p99 ms | max ms | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.points, arguments.dimension)


if __name__ == "__main__":
    main()
