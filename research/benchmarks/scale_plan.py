"""What a billion chunks need: bytes, machines, hours and cost, by measured rates; prints tables for docs/scale.md.

Every number that is not arithmetic is an argument or a constant below, with where it comes from.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

import torch

from app.documents.library import sample_rows
from app.types.documents import Document, DocumentState
from app.types.texts import ExtractedText
from embedder import load_encoder
from embedder.command.standard_output import run_program
from ingest.indexer import make_chunks, make_payload
from ingest.splitter import TokenSplitter

STEPS = (1, 5, 20)
GB = 1e9
HNSW_M = 16
LINK_BYTES = 4
CHUNK_TOKENS = 149  # of a chunk of at most 200, which ends with a sentence: the mean of `--measure`

# Measured with `--measure`; docs/scale.md says on what.
MINI_CHUNKS_PER_CORE_S = {1: 14.9, 5: 12.8, 20: 8.3}
PAYLOAD_BYTES = 1_146  # JSON of a full chunk's payload, mean over the sample library, by `--measure`
# A row of the table `chunk` with its two indexes, by the widths of their columns in PostgreSQL.
CHUNK_ROW_BYTES = 335

# https://www.nvidia.com/en-us/data-center/h100/, H100 SXM: bf16, of which it gives twice as much, for sparse matrices,
# and memory bandwidth.
H100_FLOPS, H100_BYTES_PER_S = 989e12, 3.35e12
# https://huggingface.co/Qwen/Qwen2.5-7B: parameters without embeddings in its card; hidden size and vocabulary in its
# config.json, whose matrix every soft token passes through twice, as logits and as a mixture of embeddings.
BODY_7B, HEAD_7B = 6.53e9, 3584 * 152_064


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    memory_gib: float
    disk_gb: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Which vectors stay in memory, and which lie on disk, mapped into memory as they are needed."""

    name: str
    in_memory: str
    on_disk: tuple[str, ...]


MODELS = (Model("gircse-mini", 384), Model("7B", 3584))
# https://docs.aws.amazon.com/ec2/latest/instancetypes/so.html, I4i: memory, and NVMe disks of 3,750 GB.
MACHINES = (
    Machine("i4i.8xlarge", 256, 7_500),
    Machine("i4i.16xlarge", 512, 15_000),
    Machine("i4i.32xlarge", 1_024, 30_000),
)
BITS = {"fp32": 32, "int8": 8, "binary": 1}
LAYOUTS = (
    Layout("all in memory", "fp32", ("fp32",)),
    Layout("int8 in memory", "int8", ("fp32", "int8")),
    Layout("binary in memory", "binary", ("fp32", "binary")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=float, default=1e9)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--shard-points", type=float, default=50e6, help="points that a shard holds at most")
    parser.add_argument("--headroom", type=float, default=0.7, help="part of memory and disk that is filled")
    parser.add_argument("--id-bytes", type=float, default=100, help="of memory per point: ids, index of document_id")
    parser.add_argument("--utilisation", type=float, default=0.4, help="part of a GPU's peak that a forward pass has")
    parser.add_argument("--batch", type=int, default=64, help="chunks in one call of the model")
    parser.add_argument("--core-price", type=float, default=0.04, help="of a core for an hour")
    parser.add_argument("--gpu-price", type=float, default=3.0, help="of a GPU for an hour")
    parser.add_argument("--cores", type=int, default=1_024)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--upserts", type=float, default=5_000, help="points that a machine takes in a second")
    parser.add_argument("--measure", action="store_true", help="measure the default model here instead, for a minute")
    options = parser.parse_args()
    if options.measure:
        measure()
        return
    for title, header, rows in (
        ("Bytes", ("what", *(f"{m.name} ({m.dimension})" for m in MODELS)), byte_rows(options)),
        ("Machines", ("layout", "model", "memory GB", "disk GB", *(m.name for m in MACHINES)), machine_rows(options)),
        ("Embedding", ("model", "K", "chunks/s each", "hours", "cost"), embedding_rows(options)),
        ("Writing", ("machines that take points", "hours"), writing_rows(options)),
    ):
        print(f"\n### {title}\n")
        print_table(header, rows)
    shards = ceil(options.chunks / options.shard_points)
    print(f"\n{shards} shards of at most {options.shard_points / 1e6:.0f} million points, {options.replicas} replicas.")


def measure(model: str = "gircse-mini", chunk_count: int = 32, repeats: int = 5) -> None:
    """The constants above that can be measured: one thread, by its CPU time, on chunks of one long text."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {repeats} repeats")
    torch.set_num_threads(1)
    encoder = load_encoder(model, device="cpu")
    rows = list(sample_rows())
    text = " ".join(row.text for row in rows)[: chunk_count * 2_000]
    spans = TokenSplitter(encoder, max_tokens=200, overlap=30)(ExtractedText(text, "", "text/plain"))[:chunk_count]
    tokens = statistics.mean(len(encoder.token_offsets(span.text)) for span in spans)
    now = datetime.now(UTC)
    sizes = []
    for row, span in zip(rows, spans, strict=False):
        document = Document(
            *("0" * 36, "library", row.uri, row.title, "text/plain", "0" * 64, len(row.text)),
            *(row.metadata, DocumentState.READY, None, 0, now, now),
        )
        for chunk in make_chunks(document, [span]):
            sizes.append(len(json.dumps(make_payload(document, chunk, row.title, row.metadata)).encode()))
    print(f"{tokens:.0f} tokens and {statistics.mean(sizes):.0f} bytes of payload in a full chunk")
    texts = [span.text for span in spans]
    encoder.encode_documents(texts, steps=1, batch_size=chunk_count)  # warms up
    for steps in STEPS:
        rates = []
        for _ in range(repeats):
            start = time.process_time()
            encoder.encode_documents(texts, steps=steps, batch_size=chunk_count)
            rates.append(len(texts) / (time.process_time() - start))
        spread = f"{min(rates):.1f} to {max(rates):.1f}"
        print(f"K = {steps:>2}: {statistics.median(rates):.1f} chunks per second of a core ({spread})")


def vector_bytes(dimension: int, kind: str) -> float:
    return dimension * BITS[kind] / 8


def graph_bytes() -> float:
    """Of a point: 2 M links on the lowest level, M on each above it, where every M-th point is."""
    return LINK_BYTES * (2 * HNSW_M + HNSW_M / (HNSW_M - 1))


def byte_rows(options: argparse.Namespace) -> list[tuple[str, ...]]:
    rows = [
        (f"vectors in {kind}", *(gigabytes(options.chunks * vector_bytes(m.dimension, kind)) for m in MODELS))
        for kind in BITS
    ]
    for name, size in (
        (f"HNSW graph, M = {HNSW_M}", graph_bytes()),
        ("payloads", PAYLOAD_BYTES),
        ("ids and their index", options.id_bytes),
        ("rows of chunks in the catalog", CHUNK_ROW_BYTES),
    ):
        rows.append((name, *(gigabytes(options.chunks * size) for _ in MODELS)))
    return rows


def needs(model: Model, layout: Layout, options: argparse.Namespace) -> tuple[float, float]:
    """Bytes of memory and of disk, with all replicas."""
    points = options.chunks * options.replicas
    in_memory = vector_bytes(model.dimension, layout.in_memory) + graph_bytes() + options.id_bytes
    on_disk = sum(vector_bytes(model.dimension, kind) for kind in layout.on_disk) + graph_bytes() + PAYLOAD_BYTES
    return points * in_memory, points * on_disk


def machine_rows(options: argparse.Namespace) -> list[tuple[str, ...]]:
    rows = []
    for model in MODELS:
        for layout in LAYOUTS:
            memory, disk = needs(model, layout, options)
            counts = (
                max(
                    ceil(memory / (machine.memory_gib * 2**30 * options.headroom)),
                    ceil(disk / (machine.disk_gb * GB * options.headroom)),
                    options.replicas,
                )
                for machine in MACHINES
            )
            rows.append((layout.name, model.name, gigabytes(memory), gigabytes(disk), *map(str, counts)))
    return rows


def gpu_chunks_per_s(steps: int, options: argparse.Namespace) -> float:
    """A bound from the data sheet: the prompt is bound by arithmetic, each step by that or by reading the weights."""
    flops = H100_FLOPS * options.utilisation
    prompt_s = options.batch * 2 * BODY_7B * CHUNK_TOKENS / flops
    weights = BODY_7B + 2 * HEAD_7B
    step_s = max(options.batch * 2 * weights / flops, 2 * weights / H100_BYTES_PER_S)
    return options.batch / (prompt_s + steps * step_s)


def embedding_rows(options: argparse.Namespace) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, count, price, rates in (
        (f"gircse-mini, {options.cores} cores", options.cores, options.core_price, MINI_CHUNKS_PER_CORE_S),
        (
            f"7B, {options.gpus} H100 (bound)",
            options.gpus,
            options.gpu_price,
            {steps: gpu_chunks_per_s(steps, options) for steps in STEPS},
        ),
    ):
        for steps in STEPS:
            hours = options.chunks / rates[steps] / 3600
            rows.append((name, str(steps), f"{rates[steps]:.1f}", f"{hours / count:,.0f}", f"{hours * price:,.0f}"))
    return rows


def writing_rows(options: argparse.Namespace) -> list[tuple[str, ...]]:
    total = options.chunks * options.replicas
    return [(str(count), f"{total / (options.upserts * count) / 3600:,.1f}") for count in (4, 8, 16, 32)]


def gigabytes(size: float) -> str:
    return f"{size / GB:,.0f} GB"


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    for row in (header, ("---",) * len(header), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    run_program(main)
