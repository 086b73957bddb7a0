"""Measures how long a command takes to start: seconds until its answer, and CPU seconds of all its processes."""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from embedder.command.standard_output import run_program

GIRCSE = ("-c", "import sys; from app.cli import main; sys.argv[0] = 'gircse'; main()")
# What is shown of it, the arguments of Python, and what a process that does not end by itself says once it is ready.
COMMANDS: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("gircse --help", (*GIRCSE, "--help"), None),
    ("gircse jobs list", (*GIRCSE, "jobs", "list"), None),
    ("gircse refine", (*GIRCSE, "refine", "a cat"), None),
    ("gircse search", (*GIRCSE, "search", "a cat"), None),
    ("gircse worker", (*GIRCSE, "worker"), r"Working\."),
    ("gircse up", (*GIRCSE, "up", "--port", "0"), r"Ready:"),
    ("from embedder import GircseEmbeddings", ("-c", "from embedder import GircseEmbeddings"), None),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="how often to start each command; the median counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder, "note.txt")
        note.write_text("The cat sleeps on the sofa.", encoding="utf-8")
        environment = {**os.environ, "GIRCSE_HOME": str(Path(folder, "home"))}
        run((*GIRCSE, "ingest", str(note)), None, environment)
        print("| | seconds | CPU seconds |\n|---|---|---|")
        for shown, arguments, ready in COMMANDS:
            measured = [run(arguments, ready, environment) for _ in range(options.repeats)]
            seconds, cpu_s = (statistics.median(each) for each in zip(*measured, strict=True))
            print(f"| `{shown}` | {seconds:.1f} | {cpu_s:.1f} |", flush=True)


def run(arguments: tuple[str, ...], ready: str | None, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until the command has ended or says that it is `ready`, and CPU seconds until it has ended."""
    cpu_before_s, start = children_cpu_s(), time.perf_counter()
    command = [sys.executable, "-P", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as it:
        assert it.stdout is not None
        said = next((line for line in it.stdout if ready and re.match(ready, line)), None)
        seconds = time.perf_counter() - start
        if said:
            it.terminate()
        it.stdout.read()
    if it.returncode and not said:
        raise SystemExit(f"{' '.join(arguments[2:])} ended with {it.returncode}")
    return seconds, children_cpu_s() - cpu_before_s


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    run_program(main)
