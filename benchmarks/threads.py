"""What a query takes when requests come in several threads, as in a server: computed in the thread that asks, or in the
one thread that is for models (`embedder/model_thread.py`). Each in a process of its own, since threads leave traces.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time

from benchmarks.encode import machine
from embedder.checkpoint import DEFAULT_MODEL, load_encoder

_WARM_UP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--queries", type=int, default=20, help="of each thread")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--one", choices=["own thread", "any thread"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.device = "cpu"
    if options.one:
        measure(options)
        return
    print(
        f"{machine(options)}\n\n| computed in | threads that ask | queries/s | p50 ms |\n|---|---|---|---|", flush=True
    )
    for where in ("any thread", "own thread"):
        subprocess.run([sys.executable, "-m", "benchmarks.threads", *sys.argv[1:], "--one", where], check=True)


def measure(options: argparse.Namespace) -> None:
    is_own = options.one == "own thread"
    encoder = load_encoder(options.model, device="cpu", dtype=options.dtype, own_thread=is_own)
    where = "the thread for models" if is_own else "the thread that asks"
    for count in options.threads:
        seconds: list[float] = []

        def ask(number: int, seconds: list[float] = seconds, count: int = count) -> None:
            for query in range(_WARM_UP + options.queries):
                text = f"Question {query} of thread {number} of {count}: how do prices react?"
                started = time.perf_counter()
                encoder.encode_queries([text], instruction="", steps=options.steps)
                if query >= _WARM_UP:
                    seconds.append(time.perf_counter() - started)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = count * (_WARM_UP + options.queries) / (time.perf_counter() - started)
        print(f"| {where} | {count} | {rate:.1f} | {1000 * statistics.median(seconds):.0f} |", flush=True)


if __name__ == "__main__":
    main()
