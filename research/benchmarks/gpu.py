"""Measures on a CUDA card what a CPU cannot tell: throughput of one pass and of K steps, a single query against the
time that reading the weights takes, and memory against the paper's Eq 10. Random weights of known shapes; no download.

`--device cpu --shapes tiny` runs all of it where there is no card, to see that it runs; such numbers mean nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from embedder.command.standard_output import run_program
from embedder.evaluation.machine import cpu_name
from embedder.model.backbone import DTYPES, Backbone
from research.benchmarks.gpu_parts import (
    bytes_read,
    copied_bytes_per_second,
    embedding_of,
    in_turn,
    peak_bytes,
    until_saturated,
    with_graphs,
)
from research.benchmarks.random_models import SHAPES, random_backbone

# What is aimed at: times one pass at the batch that saturates the card; times the floor by shape; times Eq 10.
MOST_TIMES_ONE_PASS = {5: 1.05, 20: 1.15}
MOST_TIMES_FLOOR = {"qwen2.5-7b": 1.5, "mistral-7b": 1.5, "qwen2.5-0.5b": 3.0}
MOST_OFF_EQ_10 = 0.10
_QUERY_STEPS = 20
_COLUMNS = (
    *("rows", "K", "ms", "texts/s", "times one pass", "with CUDA graphs"),
    *("peak, GB", "above weights, GB", "times one pass", "Eq 10"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["qwen2.5-0.5b", "qwen2.5-7b"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--tokens", type=int, default=512, help="of a text")
    parser.add_argument("--query-tokens", type=int, default=32)
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--most-rows", type=int, default=512, help="where a batch stops growing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args(arguments)
    if options.device != "cpu" and not torch.cuda.is_available():
        print("There is no CUDA card here, so nothing was measured.", file=sys.stderr)
        sys.exit(2)
    command = shlex.join(
        ["python", "-m", "research.benchmarks.gpu", *(sys.argv[1:] if arguments is None else arguments)]
    )
    report: dict[str, Any] = {"machine": machine(options.device), "command": command, "shapes": {}}
    print(f"{report['machine']}\n{command}", flush=True)
    bandwidth = copied_bytes_per_second(options.device, rounds=options.rounds)
    report["copied_bytes_per_second"] = bandwidth
    print(f"A copy within the device's memory reads and writes {bandwidth / 1e9:,.0f} GB/s.", flush=True)
    for shape in options.shapes:
        report["shapes"][shape] = measured = measure(shape, bandwidth, options)
        print(described(shape, measured), flush=True)
        if options.out:  # after every shape: the next may not fit
            options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if options.device == "cpu":
        print("\nOn a CPU this shows that the script runs, and nothing else.")


def machine(device: str) -> str:
    name = cpu_name() if device == "cpu" else torch.cuda.get_device_name()
    return (
        f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, transformers {transformers.__version__}, "
        f"Python {platform.python_version()}"
    )


def measure(shape: str, bandwidth: float, options: argparse.Namespace) -> dict[str, Any]:
    backbone = random_backbone(shape, device=options.device, dtype=DTYPES[options.dtype])
    assert backbone.decoder is not None
    found: dict[str, Any] = {
        "dtype": options.dtype,
        "tokens": options.tokens,
        "batches": [],
    }
    found["batches"], found["ended"] = until_saturated(
        lambda rows: batch(backbone, rows, options), most=options.most_rows, texts_per_second=texts_per_second
    )
    found["query"] = query(backbone, bandwidth, options)
    found["targets"] = targets(shape, found)
    return found


def batch(backbone: Backbone, rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and peak memory of one batch at 0 steps, which is one pass, and at K."""
    works = {k: embedding_of(backbone, rows=rows, tokens=options.tokens, steps=k) for k in (0, *options.steps)}
    with_them = with_graphs(backbone, options.device)
    graphed = {k: embedding_of(with_them, rows=rows, tokens=options.tokens, steps=k) for k in options.steps}
    named = {str(k): work for k, work in works.items()} | {f"{k}, graphs": work for k, work in graphed.items()}
    seconds = in_turn(named, rounds=options.rounds, device=options.device)
    del with_them, graphed, named  # a graph's keys and values are no part of a plain batch's peak
    peaks = {k: peak_bytes(work, options.device) for k, work in works.items()}
    weights = sum(each.nbytes for each in backbone.model.parameters())
    return {
        "rows": rows,
        "seconds": {k: seconds[str(k)] for k in works},
        "graph_seconds": {k: seconds[f"{k}, graphs"] for k in options.steps},
        "peak_bytes": peaks,
        "weight_bytes": weights,
        "eq_10": {k: eq_10(options.tokens, k) for k in options.steps},
    }


def texts_per_second(row: Mapping[str, Any]) -> float:
    """Of one pass."""
    return row["rows"] / row["seconds"][0]


def query(backbone: Backbone, bandwidth: float, options: argparse.Namespace) -> dict[str, Any]:
    """One short text at 20 steps, against the time in which its weights could be read."""
    sizes = {"rows": 1, "tokens": options.query_tokens, "steps": _QUERY_STEPS}
    works = {
        "plain": embedding_of(backbone, **sizes),
        "CUDA graphs": embedding_of(with_graphs(backbone, options.device), **sizes),
    }
    floor = bytes_read(backbone, steps=_QUERY_STEPS) / bandwidth
    seconds = in_turn(works, rounds=options.rounds, device=options.device)
    return {**sizes, "floor_seconds": floor, "seconds": seconds}


def eq_10(tokens: int, steps: int) -> float:
    """R_memory ≈ (N + K)² / N²: "the relative peak memory ratio" (Eq 10), stated for activations in training."""
    return (tokens + steps) ** 2 / tokens**2


def targets(shape: str, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is aimed at, what was measured, and whether it is enough; of the batch whose one pass is fastest a text."""
    rows: list[dict[str, Any]] = []
    best = max(found["batches"], key=texts_per_second)
    for k in [k for k in best["seconds"] if k]:
        if k in MOST_TIMES_ONE_PASS:
            for name, key in (("", "seconds"), (" (CUDA graphs)", "graph_seconds")):
                ratio = best[key][k] / best["seconds"][0]
                rows.append({"of": f"K={k}{name}, times one pass", "found": ratio, "most": MOST_TIMES_ONE_PASS[k]})
        peaks = best["peak_bytes"]
        if peaks[k] is not None:
            off = abs(peaks[k] / peaks[0] / best["eq_10"][k] - 1)
            rows.append({"of": f"K={k}, peak memory off Eq 10", "found": off, "most": MOST_OFF_EQ_10})
    if shape in MOST_TIMES_FLOOR:
        for name, seconds in found["query"]["seconds"].items():
            ratio = seconds / found["query"]["floor_seconds"]
            rows.append({"of": f"query ({name}), times the floor", "found": ratio, "most": MOST_TIMES_FLOOR[shape]})
    return [{**row, "is_met": row["found"] <= row["most"]} for row in rows]


def described(shape: str, found: Mapping[str, Any]) -> str:
    lines = [f"\n## {shape}, {found['dtype']}, {found['tokens']} tokens\n"]
    lines += [f"| {' | '.join(_COLUMNS)} |"]
    lines += ["|---" * len(_COLUMNS) + "|"]
    for row in found["batches"]:
        lines += [batch_line(row, k) for k in row["seconds"]]
    asked = found["query"]
    lines += ["", f"Ended: {found['ended']}.", "", f"One text of {asked['tokens']} tokens, K={asked['steps']}:"]
    lines += [f"- reading the weights: {1000 * asked['floor_seconds']:.2f} ms"]
    for name, seconds in asked["seconds"].items():
        lines += [f"- {name}: {1000 * seconds:.2f} ms, {seconds / asked['floor_seconds']:.2f} times that"]
    lines += ["", "| aim | found | at most | |", "|---|---|---|---|"]
    for row in found["targets"]:
        lines += [f"| {row['of']} | {row['found']:.3f} | {row['most']} | {'met' if row['is_met'] else 'MISSED'} |"]
    return "\n".join(lines)


def batch_line(row: Mapping[str, Any], k: int) -> str:
    seconds, peak, weights = row["seconds"][k], row["peak_bytes"][k], row["weight_bytes"]
    memory = "not measured on a CPU | | "
    if peak is not None:
        above, above_one = peak - weights, max(row["peak_bytes"][0] - weights, 1)
        memory = f"{peak / 1e9:.2f} | {above / 1e9:.2f} | {above / above_one:.3f}"
    name = "one pass" if k == 0 else k
    expected = f"{row['eq_10'][k]:.3f}" if k else "1"
    graphs = f"{row['graph_seconds'][k] / row['seconds'][0]:.3f}" if k else "–"
    return (
        f"| {row['rows']} | {name} | {1000 * seconds:.2f} | {row['rows'] / seconds:.1f} "
        f"| {seconds / row['seconds'][0]:.3f} | {graphs} | {memory} | {expected} |"
    )


if __name__ == "__main__":
    run_program(main)
