"""Semantic textual similarity: cosines of sentence pairs against human scores, by rank correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import Row, files_of, in_half, name_of, read_rows, spread
from embedder.evaluation.embedders import EmbeddingCache, TextEmbedder
from embedder.evaluation.outcomes import NO_INSTRUCTION, ON_BOTH_SIDES, TaskMeasure, TaskOutcomes
from embedder.evaluation.similarity import paired_scores

METRIC = "spearman"


def compare_similarity(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """Evaluates `sts.*` without an instruction, and with each row's own instruction on both sides."""
    outcomes = TaskOutcomes()
    for path in files_of(config.data, "sts"):
        name = name_of(path)
        rows = spread(choose_pairs(read_rows(path), name, config.half), config.limit)
        if not rows:
            continue
        outcomes.add_stratum(
            name, [f"{row['a']}\t{row['b']}" for row in rows], np.array([row["score"] for row in rows])
        )
        outcomes.measures.append(TaskMeasure(f"sts.{name}", METRIC, "spearman", ((name,),)))
        for embedder in embedders:
            memory = EmbeddingCache(embedder, config.steps)
            for condition in (NO_INSTRUCTION, ON_BOTH_SIDES):
                used = ["" if condition == NO_INSTRUCTION else row["instruction"] for row in rows]
                first = memory.embed([row["a"] for row in rows], used)
                second = memory.embed([row["b"] for row in rows], used)
                for setting in config.symmetric(embedder, condition):
                    cosines = paired_scores(first[setting.query_steps], second[setting.document_steps])
                    outcomes.add(name, METRIC, setting, cosines)
    return outcomes


def choose_pairs(rows: Sequence[Row], name: str, half: str) -> list[Row]:
    """Files named `….dev` are for tuning, `….test` for reporting; others are split in half by their first text."""
    part = name.rpartition(".")[2]
    if part in ("dev", "test"):
        return list(rows) if half in ("all", "tune" if part == "dev" else "report") else []
    return [row for row in rows if in_half(row["a"], half)]
