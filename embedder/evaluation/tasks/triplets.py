"""Instruction following: is a text nearer to one with the same instructed aspect than to one with another aspect in
common?

Combines both directions of a pair of aspects, A|B and B|A, by their harmonic mean.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from embedder.errors import DataError
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import Row, choose, files_of, read_rows
from embedder.evaluation.embedders import EmbeddingCache, TextEmbedder, bm25_scores
from embedder.evaluation.outcomes import (
    BM25,
    NO_INSTRUCTION,
    ON_BOTH_SIDES,
    ON_QUERIES,
    Setting,
    TaskMeasure,
    TaskOutcomes,
)
from embedder.evaluation.similarity import paired_scores

METRIC = "success"
Vectors = dict[int | None, np.ndarray]


def judge_triplets(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """Evaluates `triplets.*` with their own instructions."""
    tasks = read_triplets(config)
    wordings = {task: [rows[0]["instruction"]] for task, rows in tasks.items()}
    return _judge(config, embedders, tasks, wordings, prefix="triplets")


def judge_paraphrased_triplets(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """Evaluates the triplets under wordings that training did not use; the mean over the wordings."""
    known = json.loads((files("embedder.evaluation") / "paraphrases.json").read_text(encoding="utf-8"))["instructions"]
    tasks, wordings = {}, {}
    for task, rows in read_triplets(config).items():
        source, aspect, _ = split_task(task)
        if wording := known.get(source, {}).get(aspect):
            tasks[task], wordings[task] = rows, wording
    return _judge(config, embedders, tasks, wordings, prefix="paraphrased")


def read_triplets(config: EvaluationConfig) -> dict[str, list[Row]]:
    """Task (`source:A|B`) -> its rows."""
    tasks: dict[str, list[Row]] = {}
    for path in files_of(config.data, "triplets"):
        for row in read_rows(path):
            tasks.setdefault(row["task"], []).append(row)
    sources = {split_task(task)[0] for task in tasks}
    for name in ("unseen", "triplet_sources"):
        if unknown := sorted(set(getattr(config, name)) - sources):
            fault = f"--{name.replace('_', '-')} has the unknown sources {', '.join(unknown)}."
            raise DataError(f"{fault} The triplets have the sources {', '.join(sorted(sources))}.")
    if config.triplet_sources:
        tasks = {task: rows for task, rows in tasks.items() if split_task(task)[0] in config.triplet_sources}
    per_source = Counter(split_task(task)[0] for task in tasks)
    chosen = {}
    for task, rows in tasks.items():
        limit = config.limit and math.ceil(config.limit / per_source[split_task(task)[0]])
        chosen[task] = choose(rows, config.half, limit, lambda row: row["query"])
    return {task: rows for task, rows in sorted(chosen.items()) if rows}


def split_task(task: str) -> tuple[str, str, str]:
    """`openstax:kind|subject` -> source, aspect of the instruction, the other aspect."""
    source, _, aspects = task.partition(":")
    aspect, _, other = aspects.partition("|")
    return source, aspect, other


def pair_up(tasks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name of a pair of aspects -> its one or two directions."""
    pairs: dict[str, list[str]] = {}
    for task in sorted(tasks):
        source, *aspects = split_task(task)
        pairs.setdefault(f"{source}:{'|'.join(sorted(aspects))}", []).append(task)
    return {name: tuple(members) for name, members in pairs.items()}


def _judge(
    config: EvaluationConfig,
    embedders: Sequence[TextEmbedder],
    tasks: dict[str, list[Row]],
    wordings: dict[str, list[str]],
    *,
    prefix: str,
) -> TaskOutcomes:
    outcomes = TaskOutcomes(measures=_measures(tasks, config.unseen, prefix))
    for task, rows in tasks.items():
        outcomes.add_stratum(task, [f"{row['query']}\t{row['pos'][0]}\t{row['neg'][0]}" for row in rows])
        outcomes.add(task, METRIC, Setting(BM25, NO_INSTRUCTION), _bm25_successes(rows))
    for embedder in embedders:
        by_source: dict[str, list[str]] = {}
        for task in tasks:
            by_source.setdefault(split_task(task)[0], []).append(task)
        for members in by_source.values():
            memory = EmbeddingCache(embedder, config.all_steps)
            for task in members:
                _judge_task(config, memory, task, tasks[task], wordings[task], outcomes)
    return outcomes


def _judge_task(
    config: EvaluationConfig,
    memory: EmbeddingCache,
    task: str,
    rows: list[Row],
    wordings: list[str],
    outcomes: TaskOutcomes,
) -> None:
    texts = ([row["query"] for row in rows], [row["pos"][0] for row in rows], [row["neg"][0] for row in rows])
    bare = [memory.embed(side) for side in texts]
    seen = [[memory.embed(side, wording) for side in texts] for wording in wordings]
    for setting in config.symmetric(memory.embedder, NO_INSTRUCTION):
        outcomes.add(task, METRIC, setting, _successes(bare[0], bare[1], bare[2], setting))
    for setting in config.symmetric(memory.embedder, ON_BOTH_SIDES):
        outcomes.add(task, METRIC, setting, np.mean([_successes(q, p, n, setting) for q, p, n in seen], axis=0))
    for setting in config.asymmetric(memory.embedder, ON_QUERIES):
        values = [_successes(query, bare[1], bare[2], setting) for query, _, _ in seen]
        outcomes.add(task, METRIC, setting, np.mean(values, axis=0))


def _successes(query: Vectors, positive: Vectors, negative: Vectors, setting: Setting) -> np.ndarray:
    queries, steps = query[setting.query_steps], setting.document_steps
    return _wins(paired_scores(queries, positive[steps]), paired_scores(queries, negative[steps]))


def _wins(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """1 if the positive is nearer, 0.5 for a tie (frequent with BM25)."""
    return (np.sign(positive - negative) + 1) / 2


def _bm25_successes(rows: list[Row]) -> np.ndarray:
    count = len(rows)
    documents = [row[side][0] for side in ("pos", "neg") for row in rows]
    scores = bm25_scores([row["query"] for row in rows], documents)
    at = np.arange(count)
    return _wins(scores[at, at], scores[at, count + at])


def _measures(tasks: Sequence[str] | dict[str, list[Row]], unseen: Sequence[str], prefix: str) -> list[TaskMeasure]:
    """Means over seen, unseen and all pairs that have both directions; then every pair and its directions."""
    pairs = pair_up(list(tasks))
    complete = {name: members for name, members in pairs.items() if len(members) == 2}
    groups = {
        "seen": [members for name, members in complete.items() if name.partition(":")[0] not in unseen],
        "unseen": [members for name, members in complete.items() if name.partition(":")[0] in unseen],
        "all": list(complete.values()),
    }
    measures = [
        TaskMeasure(f"{prefix}.{name}", METRIC, "mean", tuple(members)) for name, members in groups.items() if members
    ]
    measures += [TaskMeasure(f"{prefix}.{name}", METRIC, "mean", (members,)) for name, members in complete.items()]
    return measures + [TaskMeasure(f"{prefix}.{task}", METRIC, "mean", ((task,),)) for task in tasks]
