"""How long documents that are embedded meanwhile hold a query back, in one process: a query every so often, alone and
beside documents of the sample library that never end. Alone and beside are measured in turn.

    python -m research.benchmarks.hold_back --rounds 3 --queries 60
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from app.documents.library import sample_rows
from app.wiring.embedding import load_engine
from embedder.checkpoint import DEFAULT_MODEL
from embedder.command.standard_output import run_program
from embedder.engine.engine import Engine
from embedder.engine.limits import Limits
from embedder.evaluation.machine import cpu_name

DOCUMENTS_A_CALL = 64
ASKED = "What do people say about the weather on the coast, and who was afraid of it?"


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each query, and documents a second."""

    queries: list[float]
    documents: float

    def quantile_ms(self, share: float) -> float:
        return 1000 * float(np.quantile(self.queries, share))


def ask(engine: Engine, *, queries: int, every: float, steps: int | None) -> list[float]:
    """Seconds of each query; one is asked every `every` seconds, or when the one before has its answer."""
    taken = []
    for number in range(queries):
        started = time.perf_counter()
        engine.refine(f"{ASKED} {number}", steps=steps)
        taken.append(time.perf_counter() - started)
        time.sleep(max(0.0, every - taken[-1]))
    return taken


@contextmanager
def documents_beside(engine: Engine, texts: Sequence[str]) -> Iterator[list[int]]:
    """Inside, documents are embedded without end; gives the numbers of those that are done."""
    done: list[int] = []
    is_over = threading.Event()

    def work() -> None:
        place = 0
        while not is_over.is_set():
            part = [texts[(place + each) % len(texts)] for each in range(DOCUMENTS_A_CALL)]
            place += len(part)
            done.append(len(engine.embed(part, instruction="", steps=0)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        is_over.set()
        thread.join()


def measure(
    engine: Engine, texts: Sequence[str], *, queries: int, every: float, steps: int | None
) -> dict[str, Measured]:
    """Queries alone, documents alone for as long, both."""
    started = time.perf_counter()
    alone = Measured(ask(engine, queries=queries, every=every, steps=steps), 0.0)
    seconds = time.perf_counter() - started
    with documents_beside(engine, texts) as done:
        started = time.perf_counter()
        time.sleep(seconds)
    unasked = Measured([], sum(done) / (time.perf_counter() - started))
    with documents_beside(engine, texts) as done:
        started = time.perf_counter()
        taken = ask(engine, queries=queries, every=every, steps=steps)
    beside = Measured(taken, sum(done) / (time.perf_counter() - started))
    return {"alone": alone, "unasked": unasked, "beside": beside}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--steps", type=int, help="of a query (default: the model's)")
    parser.add_argument("--queries", type=int, default=60, help="a round and way")
    parser.add_argument("--every", type=float, default=0.1, help="seconds from query to query")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args(arguments)
    engine = load_engine(options.model, dtype=options.dtype, limits=Limits(cache_mb=0))  # nothing is known before
    texts = [row.text for row in sample_rows()]
    try:
        ask(engine, queries=5, every=0.0, steps=options.steps)
        rounds = [
            measure(engine, texts, queries=options.queries, every=options.every, steps=options.steps)
            for _ in range(options.rounds)
        ]
    finally:
        engine.close()
    print(report(rounds))
    if options.out:
        machine = f"{cpu_name()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
        numbers = [{way: asdict(each) for way, each in row.items()} for row in rounds]
        options.out.write_text(json.dumps({"machine": machine, "model": options.model, "rounds": numbers}), "utf-8")


def report(rounds: Sequence[dict[str, Measured]]) -> str:
    lines = [
        "| round | query alone, ms (median, 95th percentile) | beside documents | held back, median "
        "| documents/s without queries | with them |",
        "|---|---|---|---|---|---|",
    ]
    for number, row in enumerate(rounds, start=1):
        alone, beside = row["alone"], row["beside"]
        lines.append(
            f"| {number} | {alone.quantile_ms(0.5):.1f}, {alone.quantile_ms(0.95):.1f} "
            f"| {beside.quantile_ms(0.5):.1f}, {beside.quantile_ms(0.95):.1f} "
            f"| {beside.quantile_ms(0.5) - alone.quantile_ms(0.5):.1f} "
            f"| {row['unasked'].documents:.0f} | {beside.documents:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run_program(main)
