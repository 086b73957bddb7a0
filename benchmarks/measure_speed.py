"""Measures the default model on this machine: loading, a query at several steps, documents per second."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import torch

from app.library import sample_rows
from embedder import DEFAULT_MODEL, load_encoder

QUERY = "How do prices react when demand falls?"
INSTRUCTION = "Given a question, retrieve passages that answer the question."
T = TypeVar("T")
STEPS = (1, 5, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--texts", type=int, default=64, help="how many sample texts to embed as documents")
    parser.add_argument("--repeats", type=int, default=10, help="how often to embed the query; the median counts")
    options = parser.parse_args()

    loading_s, encoder = timed(lambda: load_encoder(options.model))
    print(f"{options.model} on {encoder.device}, {torch.get_num_threads()} threads; loaded in {loading_s:.1f} s")
    for steps in STEPS:
        seconds = [
            timed(lambda: encoder.encode_queries([QUERY], instruction=INSTRUCTION, steps=steps))[0]  # noqa: B023
            for _ in range(options.repeats)
        ]
        print(f"query at {steps:>2} steps: {1000 * statistics.median(seconds):.0f} ms")
    texts = [row.text for row in sample_rows()][: options.texts]
    seconds, _ = timed(lambda: encoder.encode_documents(texts))
    steps = encoder.contract.default_document_steps
    print(f"documents at {steps} steps: {len(texts) / seconds:.1f} per second ({len(texts)} sample texts)")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
