"""Measures encoding side by side: one pass, and 1, 5 and 20 steps, against sentence-transformers on the same backbone
and against two plain ways to write Algorithm 1.

All of one row of the table run in turn, in an order that changes from round to round; what counts is the median, and
for ratios the median of the rounds' ratios. What takes long is measured once, in the call that warms up the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from app.documents.library import sample_rows
from embedder.checkpoint import DEFAULT_MODEL, chosen_dtype, find_checkpoint, load_parts
from embedder.command.standard_output import run_program
from embedder.evaluation.machine import cpu_name
from embedder.model.adapter import merge_adapter
from embedder.model.backbone import DTYPES, saved_pieces, split_model
from embedder.model.causal_model import load_causal_model
from research.benchmarks.encode_peers import (
    Encode,
    Model,
    has_openvino,
    openvino,
    ours,
    sentence_transformers,
    with_dynamic_cache,
    without_cache,
)

STEPS = (0, 1, 5, 20)
TOKENS = (16, 64, 128, 256, 460)  # the longest leaves room for an instruction and 20 steps in 512 positions
BATCHES = (1, 8, 64)
SLOW_S = 10.0


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
    dtypes = dict.fromkeys((options.dtype, "float32")) if options.plain_steps else ()
    plain = {dtype: through_transformers(model, options.model, dtype=dtype, device=options.device) for dtype in dtypes}
    print(f"{machine(options)}; {options.rounds} rounds", flush=True)
    rows = []
    for tokens in options.tokens:
        for batch in options.batches:
            texts = texts_of(model, tokens, batch)
            rivals = rivals_of(model, plain, folder, texts, options)
            seconds = in_turn(rivals, rounds=options.rounds, device=options.device)
            rows.append({"tokens": tokens, "batch": batch, "seconds": seconds})
            print(described(rows[-1]), flush=True)
        if options.out:
            report = {
                "machine": machine(options),
                "rounds": options.rounds,
                "command": shlex.join(sys.orig_argv[1:]),
                "rows": rows,
            }
            options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def load(options: argparse.Namespace) -> tuple[Model, Path]:
    checkpoint = find_checkpoint(options.model)
    contract = checkpoint.contract
    options.dtype = chosen_dtype(options.dtype, default=contract.dtype, device=options.device)
    backbone, tokenizer = load_parts(checkpoint, device=options.device, dtype=options.dtype)
    # Longer texts than the model was trained with take as long as others would.
    contract = replace(contract, max_length=backbone.max_positions - max(STEPS))
    return Model(backbone, tokenizer, contract), checkpoint.base


def through_transformers(model: Model, name: str, *, dtype: str, device: str) -> Model:
    """`model`, which is called `name`, read by transformers' own modules."""
    checkpoint = find_checkpoint(name)
    adapter = checkpoint.adapter
    loaded = load_causal_model(
        checkpoint.base,
        with_soft_head=checkpoint.contract.head == "soft_head",
        pieces=saved_pieces(adapter) if adapter else None,
        dtype=torch.float32,
    )
    merged = merge_adapter(loaded, adapter) if adapter else loaded
    merged = merged.to(device=device, dtype=DTYPES[dtype]).eval().requires_grad_(False)
    return replace(model, backbone=split_model(merged, attention=checkpoint.contract.attention))


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


def rivals_of(
    model: Model, plain: Mapping[str, Model], folder: Path, texts: Sequence[str], options: argparse.Namespace
) -> dict[str, Encode]:
    """plain: the models, by dtype, that the plain ways of writing the method run."""
    rivals: dict[str, Encode] = {f"ours, K={steps}": ours(model, texts, steps) for steps in options.steps}
    for name in ("float32", "bfloat16"):
        rivals[f"sentence-transformers, {name}"] = sentence_transformers(folder, texts, DTYPES[name], options.device)
    if options.device == "cpu" and has_openvino():
        rivals["OpenVINO"] = openvino(folder, texts)
    for steps in options.plain_steps:
        for dtype, each in plain.items():
            rivals[f"DynamicCache, {dtype}, K={steps}"] = with_dynamic_cache(each, texts, steps)
        rivals[f"no cache, K={steps}"] = without_cache(plain[options.dtype], texts, steps)
    return rivals


def in_turn(rivals: Mapping[str, Encode], *, rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of every round, by rival. Each is called once before; of a slow one that is what counts."""
    first = {name: timed(work, device) for name, work in rivals.items()}
    seconds: dict[str, list[float]] = {name: [once] if once > SLOW_S else [] for name, once in first.items()}
    names = [name for name, once in first.items() if once <= SLOW_S]
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
    """Of two that ran in turn; one that ran once is compared with the other's median."""
    if len(seconds) < len(others):
        return seconds[0] / statistics.median(others)
    return statistics.median(one / other for one, other in zip(seconds, others, strict=True))


def machine(options: argparse.Namespace) -> str:
    instructions = f"{torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} cores"
    name = torch.cuda.get_device_name() if options.device != "cpu" else f"{cpu_name()} with {instructions}"
    return (
        f"{options.model}, {options.dtype}, {name}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    run_program(main)
