"""A validation during training, on the tuning half and within seconds. `gircse eval` is the real measurement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from embedder.encoder import Encoder
from embedder.evaluation.data import is_tuning, read_rows
from embedder.evaluation.similarity import paired_scores

STS_STEPS = (1, 5, 20)
TRIPLET_STEPS = 5


def validate_briefly(encoder: Encoder, folder: Path, *, limit: int = 300) -> dict[str, float]:
    """Validates during training: STS-B dev at K = 1, 5, 20 and triplets, on the tuning half only (even SHA-1)."""
    scores: dict[str, float] = {}
    sts = read_rows(folder / "sts.stsbenchmark.dev.jsonl.gz")[:limit]
    if sts:
        scores |= sts_scores(encoder, sts, STS_STEPS)
    triplets = [
        row for path in sorted(folder.glob("triplets.*.jsonl.gz")) for row in read_rows(path) if is_tuning(row["query"])
    ]
    if triplets:
        stride = max(1, len(triplets) // limit)
        for name, on_documents in (("triplets.all_sides", True), ("triplets.query_side", False)):
            scores[name] = triplet_success(encoder, triplets[::stride], TRIPLET_STEPS, on_documents=on_documents)
    return {name: round(value, 2) for name, value in scores.items()}


def sts_scores(
    encoder: Encoder, rows: Sequence[dict], steps: Sequence[int], *, instruction: str = ""
) -> dict[str, float]:
    """Spearman ×100 of the model's similarity against the human score; one run gives all step counts."""
    first = encoder.encode_prefixes([row["a"] for row in rows], instruction=instruction, steps=max(steps))
    second = encoder.encode_prefixes([row["b"] for row in rows], instruction=instruction, steps=max(steps))
    gold = [row["score"] for row in rows]

    def after(vectors: np.ndarray, count: int) -> np.ndarray:
        return vectors[:, :count] if encoder.contract.has_max_sim else vectors[:, count - 1]

    scores_by_steps = {k: paired_scores(after(first, k), after(second, k)) for k in steps}
    return {f"sts.k{k}": 100 * float(spearmanr(scores, gold).statistic) for k, scores in scores_by_steps.items()}


def triplet_success(encoder: Encoder, rows: Sequence[dict], steps: int, *, on_documents: bool) -> float:
    """Share ×100 of triplets whose query is nearer to the text with the same instructed aspect."""
    successes = 0
    by_instruction: dict[str, list[dict]] = {}
    for row in rows:
        by_instruction.setdefault(row["instruction"], []).append(row)
    for instruction, group in by_instruction.items():
        queries = _embed(encoder, [row["query"] for row in group], instruction, steps)
        documents = [row[side][0] for side in ("pos", "neg") for row in group]
        vectors = _embed(encoder, documents, instruction if on_documents else "", steps)
        positive, negative = (paired_scores(queries, each) for each in (vectors[: len(group)], vectors[len(group) :]))
        successes += int((positive > negative).sum())
    return 100 * successes / len(rows)


def _embed(encoder: Encoder, texts: Sequence[str], instruction: str, steps: int) -> np.ndarray:
    """Vectors (n, D), or (n, K, D) for a model with max_sim."""
    if encoder.contract.has_max_sim:
        return encoder.encode_prefixes(texts, instruction=instruction, steps=steps)
    return encoder.encode_queries(texts, instruction=instruction, steps=steps)
