"""Measures encoding side by side: one pass, and 1, 5 and 20 steps, against sentence-transformers on the same backbone
and against two plain ways to write Algorithm 1.

All of one row of the table run in turn, in an order that changes from round to round; what counts is the median, and
for ratios the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from app.library import sample_rows
from benchmarks.encode_peers import Encode, Model, ours, sentence_transformers, with_dynamic_cache, without_cache
from embedder.backbone import DTYPES
from embedder.checkpoint import DEFAULT_MODEL, chosen_dtype, find_checkpoint, load_parts

STEPS = (0, 1, 5, 20)
TOKENS = (16, 64, 128, 256, 460)  # the longest leaves room for an instruction and 20 steps in 512 positions
BATCHES = (1, 8, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="lengths of the texts")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="texts in a call")
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--dtype", choices=["auto", *DTYPES], default="auto")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain-steps", type=int, nargs="*", default=[20], help="steps of the plain ways; none: skip")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args()
    model, folder = load(options)
    print(machine(options), flush=True)
    rows = []
    for tokens in options.tokens:
        for batch in options.batches:
            texts = texts_of(model, tokens, batch)
            rivals = rivals_of(model, folder, texts, options)
            seconds = in_turn(rivals, rounds=options.rounds, device=options.device)
            rows.append({"tokens": tokens, "batch": batch, "seconds": seconds})
            print(described(rows[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine(options), "rows": rows}, indent=1), encoding="utf-8")


def load(options: argparse.Namespace) -> tuple[Model, Path]:
    checkpoint = find_checkpoint(options.model)
    contract = checkpoint.contract
    options.dtype = chosen_dtype(options.dtype, default=contract.dtype, device=options.device)
    backbone, tokenizer = load_parts(checkpoint, device=options.device, dtype=options.dtype)
    return Model(backbone, tokenizer, contract), checkpoint.base


def texts_of(model: Model, tokens: int, count: int) -> list[str]:
    """Different texts of so many tokens, of the sample library's words."""
    chosen = random.Random(tokens)
    words = " ".join(row.text for row in sample_rows()).split()
    around = model.prompts(["a"]).ids.shape[1] - 1  # tokens of the template
    texts = []
    for _ in range(count):
        start = chosen.randrange(len(words) - 2 * tokens)
        size = tokens
        while model.prompts([" ".join(words[start : start + size])]).ids.shape[1] - around > tokens:
            size -= 1
        texts.append(" ".join(words[start : start + size]))
    return texts


def rivals_of(model: Model, folder: Path, texts: Sequence[str], options: argparse.Namespace) -> dict[str, Encode]:
    rivals: dict[str, Encode] = {f"ours, K={steps}": ours(model, texts, steps) for steps in options.steps}
    for name in ("float32", "bfloat16"):
        dtype = DTYPES[name]
        rivals[f"sentence-transformers, {name}"] = sentence_transformers(folder, texts, dtype, options.device)
    for steps in options.plain_steps:
        rivals[f"DynamicCache, K={steps}"] = with_dynamic_cache(model, texts, steps)
        rivals[f"no cache, K={steps}"] = without_cache(model, texts, steps)
    return rivals


def in_turn(rivals: Mapping[str, Encode], *, rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of every round, by rival. Each is called once before."""
    names = list(rivals)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        timed(rivals[name], device)
    for turn in tqdm(range(rounds), unit="round", leave=False):
        for name in names if turn % 2 == 0 else reversed(names):
            seconds[name].append(timed(rivals[name], device))
    return seconds


def timed(work: Callable[[], Any], device: str) -> float:
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def described(row: Mapping[str, Any]) -> str:
    seconds = row["seconds"]
    one_pass = seconds.get("ours, K=0")
    lines = [f"\n{row['tokens']} tokens, batch {row['batch']}"]
    for name, each in seconds.items():
        ratio = "" if not one_pass else f"{ratio_of(each, one_pass):6.2f} times our pass"
        middle = statistics.median(each)
        lines.append(
            f"  {name:34} {1000 * middle:9.1f} ms ({1000 * min(each):.1f} to {1000 * max(each):.1f})"
            f" {row['batch'] / middle:8.1f} texts/s {ratio}"
        )
    return "\n".join(lines)


def ratio_of(seconds: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(seconds, others, strict=True))


def machine(options: argparse.Namespace) -> str:
    name = torch.cuda.get_device_name() if options.device != "cpu" else f"{processor()}, {os.cpu_count()} cores"
    return (
        f"{options.model}, {options.dtype}, {name}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, Python {platform.python_version()}, {options.rounds} rounds"
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")


if __name__ == "__main__":
    main()
