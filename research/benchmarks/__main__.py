"""All measurements of speed, one after the other: `make bench`. Each prints its table as it goes; numbers, tables and
pictures are written into a folder. Nothing else should run on the machine meanwhile. With `--as-if avx2` libraries
take this processor for a lesser one, and the folder gets a folder of that name.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from embedder.command.standard_output import run_program
from research.benchmarks.speed_report import write_processors, write_report

# What torch, oneDNN and MKL are told.
PROCESSORS = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}


def commands_of(options: argparse.Namespace) -> dict[str, list[str]]:
    """Arguments of Python, by the name of the part."""
    into: Path = options.into
    data = ["--data", str(options.data)] if options.data else []
    quick = options.quick
    return {
        "encode": [
            "research.benchmarks.encode",
            *(["--tokens", "128", "--batches", "1", "64", "--rounds", "3"] if quick else []),
            *["--out", str(into / "encode.json")],
        ],
        "query": [
            "research.benchmarks.query_latency",
            *(["--points", "10000", "--queries", "30"] if quick else []),
            *["--out", str(into / "query-latency.json")],
        ],
        "ingest": [
            "research.benchmarks.ingest",
            *(["--limit", "100", "--repeats", "1"] if quick else ["--limit", "500"]),
        ],
        "search": [
            "research.benchmarks.search_scale",
            *data,
            *["--real", str(into / "real-vectors.npz"), "--into", str(into)],
            *["--points", *(["10000"] if quick else ["10000", "100000", "1000000"])],
        ],
        "memory": ["research.benchmarks.memory", *(["--size", "20", "--pages", "300"] if quick else [])],
        "startup": ["research.benchmarks.startup", *(["--repeats", "1"] if quick else [])],
        "flops": ["research.benchmarks.flops"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PART", help="some of: encode, query, ingest, search, memory, …")
    parser.add_argument("--quick", action="store_true", help="a first look of some minutes; all takes hours")
    parser.add_argument("--data", type=Path, help="folder of evaluation files, for real queries")
    parser.add_argument("--into", type=Path, default=Path("benchmark-results"), help="where numbers and tables go")
    parser.add_argument("--as-if", choices=PROCESSORS, help="use the instructions of that processor alone")
    options = parser.parse_args()
    folder, environment = options.into, dict(os.environ)
    if options.as_if:
        environment |= PROCESSORS[options.as_if]
        options.into = folder / options.as_if
    commands = commands_of(options)
    chosen = options.only or list(commands)
    if unknown := sorted(set(chosen) - set(commands)):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(commands)}")
    options.into.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        print(f"\n== {name}: python -m {' '.join(commands[name])}", flush=True)
        code = subprocess.run([sys.executable, "-m", *commands[name]], check=False, env=environment).returncode
        if code:
            raise SystemExit(f"{name} ended with {code}; what was measured before lies in {options.into}.")
    if {"encode", "query"} & set(chosen):
        write_report(options.into)
    if "encode" in chosen:
        write_processors(folder)
    print(f"\nWritten into {options.into}.")


if __name__ == "__main__":
    try:
        run_program(main)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
