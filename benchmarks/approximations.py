"""Measures what approximations lose: fewer steps, steps until a vector has settled, other dtypes, fewer dimensions.

Against float32 with 20 steps on both sides: nDCG@10 of retrieval collections, how many of the ten nearest documents
stay, and the least and the median cosine. One run per dtype gives the vectors after every step, of which all is made.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from app.collections.library import sample_rows
from benchmarks.encode import machine
from benchmarks.spread_vectors import unit_rows
from embedder.checkpoint import DEFAULT_MODEL, load_encoder
from embedder.encoder import Encoder
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import files_of, name_of
from embedder.evaluation.tasks.retrieval import Collection, rank_metrics, read_collection
from embedder.pooling import steps_to_convergence

STEPS = 20
_FEWER_STEPS = (1, 2, 5, 10)
_TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5)
_DIMENSIONS = (256, 192, 128, 64)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Of one collection: z_1..z_K, normalised (n, K, D)."""

    queries: np.ndarray
    documents: np.ndarray


@dataclass(frozen=True, slots=True)
class Loss:
    variant: str
    ndcg: float  # ×100
    overlap: float  # of the ten nearest documents
    least_cosine: float  # of queries and documents
    median_cosine: float
    query_steps: float  # on average


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of ir.*.jsonl.gz, as `gircse eval` takes it")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "int8"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=int, help="queries of a collection, at even distances")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args()
    config = EvaluationConfig(data=options.data, half="all", limit=options.limit)
    collections = [*read_collections(config), sample_collection()]
    losses: dict[str, list[Loss]] = {each.name: [] for each in collections}
    exact: dict[str, Vectors] = {}
    for dtype in ("float32", *options.dtypes):
        encoder = load_encoder(options.model, device=options.device, dtype=dtype)
        for collection in tqdm(collections, desc=dtype, unit="collection"):
            vectors = embed(encoder, collection)
            exact.setdefault(collection.name, vectors)
            kept = compare(collection, dtype, vectors, exact[collection.name])
            losses[collection.name] += kept
    options.dtype = ", ".join(("float32", *options.dtypes))
    print(f"{machine(options)}\n")
    for name, each in losses.items():
        print(table(name, each), flush=True)
    if options.out:
        report = {name: [_plain(loss) for loss in each] for name, each in losses.items()}
        content = {"machine": machine(options), "command": shlex.join(sys.orig_argv[1:]), "losses": report}
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_collections(config: EvaluationConfig) -> list[Collection]:
    names = [name_of(path).removesuffix(".corpus") for path in files_of(config.data, "ir") if ".corpus." in path.name]
    if not names:
        raise SystemExit(f"{config.data} holds no ir.NAME.corpus.jsonl.gz; see docs/how-to/evaluate-a-model.md.")
    return [read_collection(config, name) for name in names]


def sample_collection() -> Collection:
    """1,000 texts of the sample library, each of the first 200 looked for by its own text; nobody judged them."""
    texts = tuple(row.text for row in sample_rows())[:1000]
    ids = tuple(str(number) for number in range(len(texts)))
    return Collection("sample library", ids, texts, ids[:200], texts[:200], ("",) * 200, {})


def embed(encoder: Encoder, collection: Collection) -> Vectors:
    return Vectors(
        *(
            encoder.encode_prefixes(texts, instruction="", steps=STEPS, batch_size=64)
            for texts in (collection.queries, collection.documents)
        )
    )


def compare(collection: Collection, dtype: str, vectors: Vectors, exact: Vectors) -> list[Loss]:
    def loss(variant: str, queries: np.ndarray, documents: np.ndarray, steps: float) -> Loss:
        return measure(f"{dtype}, {variant}", collection, queries, documents, exact, steps)

    queries, documents = vectors.queries, vectors.documents
    losses = [loss(f"{STEPS} steps", queries[:, -1], documents[:, -1], STEPS)]
    if dtype != "float32":
        return losses
    for steps in _FEWER_STEPS:
        few = documents[:, steps - 1]
        losses.append(loss(f"documents {steps}", queries[:, -1], few, STEPS))
        losses.append(loss(f"queries {steps}", queries[:, steps - 1], documents[:, -1], steps))
        losses.append(loss(f"both {steps}", queries[:, steps - 1], few, steps))
    for tolerance in _TOLERANCES:
        taken = steps_to_convergence(torch.from_numpy(queries), tolerance).numpy()
        settled = queries[np.arange(len(queries)), taken - 1]
        losses.append(loss(f"queries settled to {tolerance:g}", settled, documents[:, -1], float(taken.mean())))
    for dimension in _DIMENSIONS:
        if dimension < queries.shape[-1]:
            cut = [unit_rows(each[:, -1, :dimension]) for each in (queries, documents)]
            losses.append(loss(f"{dimension} dimensions", *cut, STEPS))
    return losses


def measure(
    variant: str, collection: Collection, queries: np.ndarray, documents: np.ndarray, exact: Vectors, steps: float
) -> Loss:
    scores = queries @ documents.T
    nearest, expected = ranked(scores), ranked(exact.queries[:, -1] @ exact.documents[:, -1].T)
    cosines = [np.nan]
    if queries.shape[-1] == exact.queries.shape[-1]:
        pairs = ((queries, exact.queries[:, -1]), (documents, exact.documents[:, -1]))
        cosines = np.concatenate([(one * other).sum(axis=1) for one, other in pairs])
    return Loss(
        variant=variant,
        ndcg=100 * float(rank_metrics(collection, scores)["ndcg@10"].mean()) if collection.judgements else float("nan"),
        overlap=float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(nearest, expected, strict=True)])),
        least_cosine=float(np.min(cosines)),
        median_cosine=float(np.median(cosines)),
        query_steps=steps,
    )


def ranked(scores: np.ndarray) -> np.ndarray:
    """The ten nearest documents of every query (n, 10)."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :10]


def table(name: str, losses: Sequence[Loss]) -> str:
    lines = [
        f"{name}\n",
        "| variant | query steps | nDCG@10 | of the ten nearest | least cosine | median |",
        "|---|---|---|---|---|---|",
    ]
    for each in losses:
        ndcg_of = "" if np.isnan(each.ndcg) else f"{each.ndcg:.1f}"
        cosines = ["" if np.isnan(c) else f"{c:.5f}" for c in (each.least_cosine, each.median_cosine)]
        lines.append(
            f"| {each.variant} | {each.query_steps:.1f} | {ndcg_of} | {each.overlap:.3f} | {' | '.join(cosines)} |"
        )
    return "\n".join(lines) + "\n"


def _plain(loss: Loss) -> dict[str, object]:
    """For JSON, which has no word for what is not a number."""
    return {key: None if value != value else value for key, value in asdict(loss).items()}


if __name__ == "__main__":
    main()
