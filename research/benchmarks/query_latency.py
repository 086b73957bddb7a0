"""How long a search takes from a query's text to its hits, through the search service, and in which stages.

A collection of synthetic chunks (spread_vectors.py, around the sample library) in the embedded engine,
optimised as `gircse optimize` does; queries of a few tokens, each asked once, since what was asked is remembered.
The floor is the time that this machine takes to read once, from memory, all weights that the steps need.

    python -m research.benchmarks.query_latency --points 100000 --steps 1 5 20 --dtypes bfloat16 int8 float32

With `--clients 1 4 16` so many ask at once, each its next query when it has the answer to the one before.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from app.documents.library import sample_rows
from app.maintenance.optimize import optimize_index
from app.services import Services
from app.settings import Settings
from app.types.documents import Point
from app.types.point_ids import PointIds
from app.types.search import SearchMode, SearchRequest
from app.wiring.services import open_services
from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.command.standard_output import run_program
from embedder.model.model_thread import on_model_thread
from research.benchmarks.encode import load, machine, texts_of
from research.benchmarks.qdrant_choice import QdrantChoice, add_qdrant_options, qdrant_choices
from research.benchmarks.spread_vectors import fit_spread

COLLECTION = f"latency-{uuid.uuid4().hex[:12]}"  # of this run alone, on a server that has others
STAGES = ("embed", "index", "total", "explain")
_UPSERTED = 2_000
_WARM_UP = 5
_BUFFER = 64 * 2**20  # numbers of float32: far more than any cache holds
_KINDS = {
    "products with weights": ("mkldnn::_linear_pointwise", "aten::_weight_int8pack_mm", "aten::addmm", "aten::mm"),
    "attention": ("aten::bmm", "aten::_softmax", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    "norms": ("aten::native_layer_norm", "aten::rms_norm"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--points", type=int, default=100_000, help="chunks in the collection")
    parser.add_argument("--queries", type=int, default=100, help="of every setting")
    parser.add_argument("--tokens", type=int, default=12, help="of a query")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--dtypes", nargs="+", default=["auto", "int8"])
    parser.add_argument("--mode", type=SearchMode, choices=list(SearchMode), default=SearchMode.HYBRID)
    parser.add_argument("--clients", type=int, nargs="*", default=[], help="how many ask at once")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    add_qdrant_options(parser)
    options = parser.parse_args()
    options.device = "cpu"
    report: list[dict[str, object]] = []
    with qdrant_choices(options) as choices:
        for qdrant in choices:
            print(f"\nQdrant: {qdrant.label}", flush=True)
            report += [{"qdrant": qdrant.label, **row} for row in run(options, qdrant)]
    if options.out:
        content = {"machine": machine(options), "command": shlex.join(sys.orig_argv[1:]), "rows": report}
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def run(options: argparse.Namespace, qdrant: QdrantChoice) -> Iterator[dict[str, object]]:
    filled = False
    with tempfile.TemporaryDirectory(prefix="gircse-latency-") as folder:
        for dtype in options.dtypes:
            options.dtype = dtype
            settings = Settings(
                home=Path(folder), model=options.model, dtype=dtype, vector_cache_mb=0, **qdrant.settings
            )
            with open_services(settings) as services:
                if not filled:
                    fill(services, options.points)
                    filled = True
                yield from measure(services, options)
                yield from [measure_together(services, options, clients) for clients in options.clients]
                if dtype == options.dtypes[-1]:
                    services.library.delete_collection(COLLECTION)


def fill(services: Services, count: int) -> None:
    """A collection of so many chunks, written into the index alone: the catalog's list of documents stays empty."""
    collection = services.library.create_collection(COLLECTION)
    rows = list(sample_rows())
    texts = [row.text for row in rows]
    vectors = services.embedder.embed_documents(texts, instruction="", steps=collection.document_steps)
    real = np.array(vectors, dtype=np.float32)
    spread = fit_spread(real)
    drawn = spread.draw(count, seed=0)
    for start in tqdm(range(0, count, _UPSERTED), desc="load", unit_scale=_UPSERTED, unit="chunk"):
        numbers = range(start, min(start + _UPSERTED, count))
        services.index.upsert(
            collection.active_index,
            [_point(number, texts[number % len(texts)], drawn[number].tolist()) for number in numbers],
        )
    print(f"optimised in {optimize_index(services.index, collection.active_index).seconds:.0f} s", flush=True)


def _point(number: int, text: str, vector: list[float]) -> Point:
    document = f"d{number // 10}"
    metadata: dict[str, Any] = {
        "document_id": document,
        "title": f"Text {number // 10}",
        "uri": f"text-{number // 10}.txt",
        "ordinal": number % 10,
        "start": 0,
        "end": len(text),
        "page": None,
        "text_hash": f"{number:x}",
    }
    chunk = PointIds(COLLECTION, document).next(metadata["text_hash"])
    return Point(chunk, vector, {"page_content": text, "metadata": metadata})


def measure(services: Services, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    model, _ = on_model_thread(load, options)
    queries = texts_of(model, options.tokens, (options.queries + _WARM_UP) * len(options.steps))
    bandwidth = on_model_thread(memory_bandwidth)
    print(f"\n{machine(options)}; memory is read at {bandwidth / 1e9:.0f} GB/s")
    for number, steps in enumerate(options.steps):
        chosen = queries[number :: len(options.steps)]
        spent: dict[str, list[float]] = {stage: [] for stage in STAGES}
        for text in tqdm(chosen, desc=f"{options.dtype}, {steps} steps", unit="query", leave=False):
            request = SearchRequest(text, COLLECTION, instruction="", steps=steps, mode=options.mode)
            found = services.search.search(request, highlight=False)
            highlighted = services.search.highlight(found)
            for stage in STAGES:
                spent[stage].append((highlighted if stage == "explain" else found).timings_ms[stage])
        floor_ms = 1000 * weight_bytes(model.backbone.model, steps, options.dtype) / bandwidth
        row: dict[str, object] = {
            "dtype": options.dtype,
            "steps": steps,
            "points": options.points,
            "floor_ms": floor_ms,
            "profile": on_model_thread(parts_of, options, chosen[0], steps),
        }
        for stage in STAGES:
            times = spent[stage][_WARM_UP:]
            row[stage] = {f"p{p}": float(np.percentile(times, p)) for p in (50, 95, 99)}
        print(described(row), flush=True)
        yield row


def measure_together(services: Services, options: argparse.Namespace, clients: int) -> dict[str, object]:
    """At the first number of steps."""
    steps = options.steps[0]
    model, _ = on_model_thread(load, options)
    texts = texts_of(model, options.tokens, options.queries * (clients + 1))[options.queries :]

    def ask(text: str) -> float:
        started = time.perf_counter()
        request = SearchRequest(f"{clients} {text}", COLLECTION, instruction="", steps=steps, mode=options.mode)
        services.search.search(request, highlight=False)
        return 1000 * (time.perf_counter() - started)

    with ThreadPoolExecutor(clients) as threads, _timed() as spent:
        taken = list(threads.map(ask, texts))
    row: dict[str, object] = {"dtype": options.dtype, "steps": steps, "points": options.points, "clients": clients}
    row |= {"total": {f"p{p}": float(np.percentile(taken, p)) for p in (50, 95, 99)}, "per_s": len(texts) / spent[0]}
    shown = ", ".join(f"{name} {value:.0f}" for name, value in row["total"].items())  # type: ignore[attr-defined]
    print(f"{options.dtype}, {steps} steps, {clients} at once: {row['per_s']:.1f} searches/s; ms: {shown}", flush=True)
    return row


def described(row: dict) -> str:
    stages = "; ".join(
        f"{stage} {row[stage]['p50']:.1f} (p95 {row[stage]['p95']:.1f}, p99 {row[stage]['p99']:.1f})"
        for stage in STAGES
    )
    parts = ", ".join(f"{name} {share:.0%}" for name, share in row["profile"].items())
    ratio = row["embed"]["p50"] / row["floor_ms"]
    return (
        f"{row['dtype']}, {row['steps']} steps, milliseconds: {stages}\n"
        f"  floor of the steps {row['floor_ms']:.1f}, embed is {ratio:.2f} times that; within it: {parts}"
    )


def memory_bandwidth() -> float:
    """Bytes per second, of the best of some readings of a buffer that no cache holds."""
    buffer = torch.ones(_BUFFER)
    best = float("inf")
    for _ in range(7):
        started = time.perf_counter()
        buffer.sum()
        best = min(best, time.perf_counter() - started)
    return _BUFFER * buffer.element_size() / best


def weight_bytes(model: nn.Module, steps: int, dtype: str) -> int:
    """What a prefill and so many steps read: all matrices of the body once each, the vocabulary's twice a step."""
    size = {"int8": 1, "float32": 4}.get(dtype, next(model.parameters()).element_size())
    body = sum(each.weight.numel() for each in model.base_model.modules() if isinstance(each, nn.Linear))
    head = getattr(model, "soft_head", None)
    entries = len(head.pieces) if head is not None else model.get_input_embeddings().num_embeddings
    hidden = sum(each.weight.numel() for each in head.modules() if isinstance(each, nn.Linear)) if head else 0
    return size * ((steps + 1) * body + steps * (2 * entries * model.get_input_embeddings().embedding_dim + hidden))


def parts_of(options: argparse.Namespace, text: str, steps: int) -> dict[str, float]:
    """Shares of the time of an embedding, by torch's profiler, which makes the small operations look slower."""
    encoder = load_encoder(options.model, device="cpu", dtype=options.dtype, own_thread=True)
    for _ in range(_WARM_UP):
        encoder.refine(text, instruction="", steps=steps)
    with profile(activities=[ProfilerActivity.CPU]) as found, _timed() as spent:
        for _ in range(_WARM_UP):
            encoder.refine(text, instruction="", steps=steps)
    kinds = {name: kind for kind, names in _KINDS.items() for name in names}
    shares: Counter[str] = Counter()
    for event in found.key_averages():
        shares[kinds.get(event.key, "other operations")] += event.self_cpu_time_total / 1e6 / spent[0]
    return {**dict(shares.most_common()), "Python between them": max(0.0, 1 - sum(shares.values()))}


@contextmanager
def _timed() -> Iterator[list[float]]:
    spent: list[float] = []
    started = time.perf_counter()
    yield spent
    spent.append(time.perf_counter() - started)


if __name__ == "__main__":
    run_program(main)
