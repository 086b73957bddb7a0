"""Measures how much memory one batch takes on a CPU: one pass, K steps, and two plain ways to write Algorithm 1. Linux.

Each runs in a process of its own, which has encoded one text before; what counts is how far its resident memory rises
at most while it encodes the batch, by the kernel's own mark (VmHWM).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, run
from typing import Any

import torch

from benchmarks.encode import load, machine, texts_of
from benchmarks.encode_peers import ours, with_dynamic_cache, without_cache
from benchmarks.gpu import eq_10
from embedder.backbone import DTYPES
from embedder.checkpoint import DEFAULT_MODEL

WAYS = {"ours": ours, "DynamicCache": with_dynamic_cache, "no cache": without_cache}
_CHILD = "--as-child"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", choices=["auto", *DTYPES], default="auto")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    parser.add_argument(_CHILD, choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.device = "cpu"
    if options.as_child:
        print(rise(options))
        return
    if not Path("/proc/self/clear_refs").exists():
        sys.exit("This needs the /proc of Linux.")
    print(f"{options.rows} texts of {options.tokens} tokens")
    asked = [("ours", 0), *((way, options.steps) for way in WAYS)]
    rows = [measured(way, steps, options) for way, steps in asked]
    print(table(rows, options))
    if options.out:
        report = {"machine": machine(options), "tokens": options.tokens, "rows": options.rows, "found": rows}
        options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")


def measured(way: str, steps: int, options: argparse.Namespace) -> dict[str, Any]:
    values = {
        "--model": options.model,
        "--dtype": options.dtype,
        "--tokens": options.tokens,
        "--rows": options.rows,
        "--steps": steps,
        _CHILD: way,
    }
    command = [
        sys.executable,
        "-m",
        "benchmarks.encode_memory",
        *(str(each) for pair in values.items() for each in pair),
    ]
    found = [float(run(command, stdout=PIPE, text=True, check=True).stdout.split()[-1]) for _ in range(options.rounds)]
    return {"way": way, "steps": steps, "megabytes": found}


def rise(options: argparse.Namespace) -> float:
    """In MB."""
    model, _ = load(options)
    texts = texts_of(model, options.tokens, options.rows)
    way = WAYS[options.as_child]
    way(model, texts[:1], options.steps)()
    encode = way(model, texts, options.steps)
    before = bytes_of("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # sets VmHWM to what is resident now
    encode()
    return (bytes_of("VmHWM") - before) / 1e6


def bytes_of(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise ValueError(name)


def table(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> str:
    one_pass = statistics.median(rows[0]["megabytes"])
    lines = ["| way | MB more, at most | times one pass | Eq 10 |", "|---|---|---|---|"]
    for row in rows:
        middle = statistics.median(row["megabytes"])
        name = "one pass" if row["steps"] == 0 else f"{row['way']}, K={row['steps']}"
        spread = f"{min(row['megabytes']):.0f} to {max(row['megabytes']):.0f}"
        paper = eq_10(options.tokens, row["steps"])
        times = f"{middle / one_pass:.2f}" if one_pass > 0 else "–"  # of so few texts nothing may have been added
        lines.append(f"| {name} | {middle:.0f} ({spread}) | {times} | {paper:.2f} |")
    return "\n".join([*lines, f"\ntorch {torch.__version__}, {torch.get_num_threads()} threads"])


if __name__ == "__main__":
    main()
