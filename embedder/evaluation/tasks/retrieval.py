"""Retrieval on test collections: nDCG@10 and recall@100 by ir_measures, for every pair of query and document steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
from ir_measures import R, nDCG

from embedder.errors import DataError
from embedder.evaluation.config import EvaluationConfig
from embedder.evaluation.data import choose, files_of, name_of, read_rows, spread
from embedder.evaluation.embedders import EmbeddingCache, TextEmbedder, bm25_scores
from embedder.evaluation.outcomes import BM25, NO_INSTRUCTION, ON_QUERIES, Setting, TaskMeasure, TaskOutcomes
from embedder.evaluation.similarity import scores_of

METRICS = {"ndcg@10": nDCG @ 10, "recall@100": R @ 100}
_DEPTH = 100
_DOCUMENTS_PER_QUERY = 20  # in the corpus of a limited run


@dataclass(frozen=True, slots=True)
class RetrievalDataset:
    name: str
    document_ids: tuple[str, ...]
    documents: tuple[str, ...]
    query_ids: tuple[str, ...]
    queries: tuple[str, ...]
    instructions: tuple[str, ...]
    judgements: Mapping[str, Mapping[str, int]]  # query id -> document id -> grade


def retrieve(config: EvaluationConfig, embedders: Sequence[TextEmbedder]) -> TaskOutcomes:
    """Evaluates `ir.*`: queries with and without their instruction; documents without one."""
    outcomes = TaskOutcomes()
    names = []
    for path in files_of(config.data, "ir"):
        name, _, part = name_of(path).rpartition(".")
        if part != "corpus":
            continue
        collection = read_collection(config, name)
        if not collection.queries:
            continue
        names.append(name)
        outcomes.add_stratum(name, collection.queries)
        outcomes.measures += [TaskMeasure(f"retrieval.{name}", metric, "mean", ((name,),)) for metric in METRICS]
        _add(outcomes, collection, Setting(BM25, NO_INSTRUCTION), bm25_scores(collection.queries, collection.documents))
        for embedder in embedders:
            _rank(config, embedder, collection, outcomes)
    for metric in METRICS:
        outcomes.add_mean("retrieval.mean", metric, "mean", names)
    return outcomes


def read_collection(config: EvaluationConfig, name: str) -> RetrievalDataset:
    """Reads a collection. With a limit, the corpus has the judged documents of the chosen queries and some others."""
    parts = {part: _read_part(config, name, part) for part in ("corpus", "queries", "qrels")}
    judgements: dict[str, dict[str, int]] = {}
    for row in parts["qrels"]:
        judgements.setdefault(row["qid"], {})[row["did"]] = int(row["score"])
    judged = [row for row in parts["queries"] if max(judgements.get(row["_id"], {}).values(), default=0) > 0]
    queries = choose(judged, config.half, config.limit, lambda row: row["text"])
    corpus = parts["corpus"]
    if config.limit is not None:
        needed = {document for row in queries for document in judgements[row["_id"]]}
        needed |= {row["_id"] for row in spread(corpus, config.limit * _DOCUMENTS_PER_QUERY)}
        corpus = [row for row in corpus if row["_id"] in needed]
    return RetrievalDataset(
        name=name,
        document_ids=tuple(row["_id"] for row in corpus),
        documents=tuple(f"{row.get('title', '')} {row['text']}".strip() for row in corpus),
        query_ids=tuple(row["_id"] for row in queries),
        queries=tuple(row["text"] for row in queries),
        instructions=tuple(row.get("instruction", "") for row in queries),
        judgements={row["_id"]: judgements[row["_id"]] for row in queries},
    )


def _read_part(config: EvaluationConfig, name: str, part: str) -> list[dict]:
    for ending in ("jsonl.gz", "jsonl"):
        if rows := read_rows(config.data / f"ir.{name}.{part}.{ending}"):
            return rows
    raise DataError(f"{config.data} has ir.{name}.corpus, but ir.{name}.{part}.jsonl.gz is missing or empty.")


def _rank(
    config: EvaluationConfig, embedder: TextEmbedder, collection: RetrievalDataset, outcomes: TaskOutcomes
) -> None:
    memory = EmbeddingCache(embedder, config.all_steps)
    documents = memory.embed(collection.documents)
    for condition, instructions in ((NO_INSTRUCTION, ""), (ON_QUERIES, collection.instructions)):
        queries = memory.embed(collection.queries, instructions)
        for setting in config.asymmetric(embedder, condition):
            scores = scores_of(queries[setting.query_steps], documents[setting.document_steps])
            _add(outcomes, collection, setting, scores)


def _add(outcomes: TaskOutcomes, collection: RetrievalDataset, setting: Setting, scores: np.ndarray) -> None:
    for metric, values in rank_metrics(collection, scores).items():
        outcomes.add(collection.name, metric, setting, values)


def rank_metrics(collection: RetrievalDataset, scores: np.ndarray) -> dict[str, np.ndarray]:
    """Every metric of every query, from scores (queries, documents)."""
    depth = min(_DEPTH, scores.shape[1])
    best = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
    run = {
        query: {collection.document_ids[at]: float(scores[row, at]) for at in best[row]}
        for row, query in enumerate(collection.query_ids)
    }
    per_query: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    names = {measure: name for name, measure in METRICS.items()}
    for result in ir_measures.iter_calc(list(METRICS.values()), collection.judgements, run):
        per_query[names[result.measure]][result.query_id] = result.value
    return {name: np.array([values[query] for query in collection.query_ids]) for name, values in per_query.items()}
