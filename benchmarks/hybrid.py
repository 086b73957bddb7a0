"""Retrieval by vector, by words and by both, as users get it: ingested, indexed and searched by the services.

Beside them BM25 of bm25s, plain MiniLM, and other ways to fuse the same two legs. Weights of these are chosen on the
tuning half of the queries (even SHA-1 of the text); the table reports the other half, and all.

python -m benchmarks.hybrid --data FOLDER [--home FOLDER] [--into docs/evaluation]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import ir_measures
import numpy as np
from ir_measures import R, nDCG
from qdrant_client import models
from qdrant_client.hybrid.fusion import distribution_based_score_fusion, reciprocal_rank_fusion
from tqdm.auto import tqdm

from app.search.fusion import DENSE_WEIGHT, fuse
from app.search.retrieval import CANDIDATES
from app.services import Services
from app.settings import Settings
from app.types.documents import JobState, ScoredPoint, Source
from app.types.search import MAX_LIMIT, SearchMode, SearchRequest
from app.wiring.ingestion import run_worker
from app.wiring.services import open_services
from embedder.evaluation.bootstrap import Estimate, draw_weights, estimate, means
from embedder.evaluation.data import is_tuning, read_rows
from embedder.evaluation.embedders import MiniLmEmbedder, bm25_scores
from embedder.evaluation.evaluate import cpu_name

COLLECTIONS = ("cranfield", "medline_med", "stackfaq")
METRICS = {"ndcg@10": nDCG @ 10, "recall@10": R @ 10}
DEPTH = 10
WEIGHTS = [round(0.05 * step, 2) for step in range(1, 20)]
RRF_WEIGHTS = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
RESAMPLES = 2_000
_HANDED_IN = 500
_LOOK_S = 20

DENSE, SPARSE, HYBRID = "dense: gircse-mini", "sparse: BM25 of the index", "hybrid: weighted sum of shares"
BM25S, MINILM, MINILM_INSTRUCTED = "bm25s alone", "MiniLM alone", "MiniLM alone, instructed"
DBSF, RRF, WEIGHTED_RRF = "legs fused by DBSF", "legs fused by RRF, k = 2", "legs fused by weighted RRF, k = 2"

ORDER = (DENSE, SPARSE, HYBRID, BM25S, MINILM, MINILM_INSTRUCTED, DBSF, RRF, WEIGHTED_RRF)

Ranking = list[str]  # ids of documents, best first
Legs = tuple[list[ScoredPoint], list[ScoredPoint]]
Scores = dict[str, dict[str, dict[str, float]]]  # system → metric → query → value


@dataclass(frozen=True, slots=True)
class Judged:
    """A test collection; documents carry no instruction, queries that of the file."""

    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    instructions: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class Found:
    """By system, then by query."""

    rankings: dict[str, dict[str, Ranking]] = field(default_factory=dict)
    legs: dict[str, Legs] = field(default_factory=dict)

    def add(self, system: str, query: str, ranking: Ranking) -> None:
        self.rankings.setdefault(system, {})[query] = ranking


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of ir.NAME.corpus.jsonl.gz and its like")
    parser.add_argument("--home", type=Path, help="kept between runs: what is ingested there is not ingested again")
    parser.add_argument("--into", type=Path, help="write hybrid.json there, as it stands in the documentation")
    options = parser.parse_args()
    judged = [read_judged(options.data, name) for name in COLLECTIONS]
    with (
        tempfile.TemporaryDirectory() as folder,
        open_services(Settings(home=options.home or Path(folder))) as services,
    ):
        found = {each.name: search(services, each) for each in judged}
        model = f"{services.embedder.info.name}, {services.embedder.info.default_query_steps} query steps"
    minilm = MiniLmEmbedder()
    for each in judged:
        rank_baselines(minilm, each, found[each.name])
    chosen = fuse_otherwise(judged, found)
    facts = {"model": model, "machine": cpu_name(), "candidates of each leg": CANDIDATES, **chosen}
    scores = {each.name: measure(each, found[each.name]) for each in judged}
    print(render(judged, scores, facts))
    if options.into:
        content = {"facts": facts, "figures": figures(judged, scores)}
        (options.into / "hybrid.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_judged(folder: Path, name: str) -> Judged:
    corpus, queries, qrels = (
        read_rows(folder / f"ir.{name}.{part}.jsonl.gz") for part in ("corpus", "queries", "qrels")
    )
    grades: dict[str, dict[str, int]] = {}
    for row in qrels:
        grades.setdefault(row["qid"], {})[row["did"]] = int(row["score"])
    answered = [row for row in queries if max(grades.get(row["_id"], {}).values(), default=0) > 0]
    return Judged(
        name=name,
        documents={row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in corpus},
        queries={row["_id"]: row["text"] for row in answered},
        instructions={row["_id"]: row.get("instruction", "") for row in answered},
        grades={row["_id"]: grades[row["_id"]] for row in answered},
    )


def ingest(services: Services, judged: Judged) -> None:
    """As a person would: documents are handed in, and a worker makes them searchable."""
    services.library.ensure_collection(judged.name)
    sources = [
        Source(key, key, "text/plain", data=text.encode()) for key, text in judged.documents.items() if text.strip()
    ]
    for start in range(0, len(sources), _HANDED_IN):
        services.library.add_documents(judged.name, sources[start : start + _HANDED_IN])
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(services, stop))
    worker.start()
    try:
        while (left := _open_jobs(services, judged.name)) and worker.is_alive():
            print(f"{judged.name}: {left} documents to go", flush=True)
            time.sleep(_LOOK_S)
    finally:
        stop.set()
        worker.join()
    if dead := services.catalog.job_counts(judged.name).get(JobState.DEAD, 0):
        raise SystemExit(f"{dead} documents of {judged.name} could not be ingested: gircse jobs list --state dead")


def _open_jobs(services: Services, name: str) -> int:
    counts = services.catalog.job_counts(name)
    return sum(counts.get(state, 0) for state in (JobState.QUEUED, JobState.RUNNING))


def search(services: Services, judged: Judged) -> Found:
    """Each query in each mode, and both legs as they are fetched for a hybrid search."""
    ingest(services, judged)
    found = Found()
    index = services.catalog.collection(judged.name).active_index
    uris = {document.id: document.uri for document in services.catalog.documents(judged.name, limit=1_000_000)}
    for key, text in tqdm(judged.queries.items(), desc=judged.name, unit="query"):
        instruction = judged.instructions[key]
        for system, mode in ((DENSE, SearchMode.DENSE), (SPARSE, SearchMode.SPARSE), (HYBRID, SearchMode.HYBRID)):
            request = SearchRequest(text, judged.name, instruction=instruction, limit=MAX_LIMIT, mode=mode)
            hits = services.search.search(request, highlight=False).hits
            found.add(system, key, best_documents([hit.document.uri for hit in hits]))
        vector = services.search.refine(text, instruction=instruction).vector  # remembered by the service
        legs = services.index.search_both(index, vector, text, limit=CANDIDATES)
        dense, sparse = ([_of_document(point, uris) for point in leg] for leg in legs)
        found.legs[key] = dense, sparse
    return found


def best_documents(documents: Sequence[str]) -> Ranking:
    """A document stands where its best chunk does."""
    return list(dict.fromkeys(documents))[:DEPTH]


def _of_document(point: ScoredPoint, uris: Mapping[str, str]) -> ScoredPoint:
    metadata = cast("Mapping[str, str]", point.payload["metadata"])
    return replace(point, payload={"uri": uris[metadata["document_id"]]})


def rank_baselines(minilm: MiniLmEmbedder, judged: Judged, found: Found) -> None:
    """Over whole documents, of which MiniLM reads the first 256 tokens."""
    documents, texts = list(judged.documents), list(judged.documents.values())
    queries, asked = list(judged.queries), list(judged.queries.values())
    vectors = minilm.embed(texts, instruction="", steps=())[None]
    plain = minilm.embed(asked, instruction="", steps=())[None]
    instructed = np.empty_like(plain)
    for instruction in sorted(set(judged.instructions.values())):
        rows = [row for row, key in enumerate(queries) if judged.instructions[key] == instruction]
        instructed[rows] = minilm.embed([asked[row] for row in rows], instruction=instruction, steps=())[None]
    for system, scores in (
        (BM25S, bm25_scores(asked, texts)),
        (MINILM, plain @ vectors.T),
        (MINILM_INSTRUCTED, instructed @ vectors.T),
    ):
        for key, row in zip(queries, scores, strict=True):
            found.add(system, key, [documents[place] for place in np.argsort(-row, kind="stable")[:DEPTH]])


def fuse_otherwise(judged: Sequence[Judged], found: Mapping[str, Found]) -> dict[str, float]:
    """Qdrant's fusions of the same legs, by its own client. The weights that are best on the tuning half."""
    by_rrf = {weight: tuning_mean(judged, found, partial(by_ranks, dense_weight=weight)) for weight in RRF_WEIGHTS}
    by_sum = {weight: tuning_mean(judged, found, partial(by_shares, dense_weight=weight)) for weight in WEIGHTS}
    for name, means_of in (("weighted sum", by_sum), ("weighted RRF", by_rrf)):
        print(f"{name}, tuning half:", ", ".join(f"{weight:g}: {value:.2f}" for weight, value in means_of.items()))
    rrf_weight, sum_weight = max(by_rrf, key=by_rrf.__getitem__), max(by_sum, key=by_sum.__getitem__)
    for each in judged:
        for key, legs in found[each.name].legs.items():
            found[each.name].add(DBSF, key, by_distribution(legs))
            found[each.name].add(RRF, key, by_ranks(legs, 1.0))
            found[each.name].add(WEIGHTED_RRF, key, by_ranks(legs, rrf_weight))
    return {
        "dense weight in use": DENSE_WEIGHT,
        "dense weight that is best on the tuning half": sum_weight,
        "weight of the dense leg in weighted RRF, best on the tuning half": rrf_weight,
    }


def by_shares(legs: Legs, dense_weight: float) -> Ranking:
    return best_documents([_uri(each.point) for each in fuse(*legs, dense_weight=dense_weight)])


def by_ranks(legs: Legs, dense_weight: float) -> Ranking:
    fused = reciprocal_rank_fusion(_for_client(legs), limit=2 * CANDIDATES, weights=[dense_weight, 1.0])
    return best_documents([str(point.payload["uri"]) for point in fused if point.payload])


def by_distribution(legs: Legs) -> Ranking:
    fused = distribution_based_score_fusion(_for_client(legs), limit=2 * CANDIDATES)
    return best_documents([str(point.payload["uri"]) for point in fused if point.payload])


def _for_client(legs: Legs) -> list[list[models.ScoredPoint]]:
    """Made anew, since the client writes the fused scores into them."""
    return [
        [models.ScoredPoint(id=each.id, version=0, score=each.score, payload=dict(each.payload)) for each in leg]
        for leg in legs
    ]


def _uri(point: ScoredPoint) -> str:
    return str(point.payload["uri"])


def tuning_mean(judged: Sequence[Judged], found: Mapping[str, Found], rank: Callable[[Legs], Ranking]) -> float:
    """nDCG@10 of the tuning half, mean over collections."""
    values = []
    for each in judged:
        keys = [key for key, text in each.queries.items() if is_tuning(text)]
        rankings = {key: rank(found[each.name].legs[key]) for key in keys}
        values.append(np.mean(list(per_query(each, rankings)["ndcg@10"].values())))
    return 100 * float(np.mean(values))


def per_query(judged: Judged, rankings: Mapping[str, Ranking]) -> dict[str, dict[str, float]]:
    """Metric → query → value; a query that found nothing has 0."""
    run = {key: {document: float(-place) for place, document in enumerate(rankings[key])} for key in rankings}
    values = {name: dict.fromkeys(rankings, 0.0) for name in METRICS}
    names = {measure: name for name, measure in METRICS.items()}
    grades = {key: judged.grades[key] for key in rankings}
    for result in ir_measures.iter_calc(list(METRICS.values()), grades, run):
        values[names[result.measure]][result.query_id] = result.value
    return values


def measure(judged: Judged, found: Found) -> Scores:
    return {system: per_query(judged, rankings) for system, rankings in found.rankings.items()}


def estimates(
    judged: Sequence[Judged], scores: Mapping[str, Scores], metric: str, *, odd_only: bool
) -> dict[str, np.ndarray]:
    """System → (collections and their mean, 1 + resamples); all systems see the same resamples."""
    found: dict[str, list[np.ndarray]] = {}
    for each in judged:
        keys = [key for key, text in each.queries.items() if not (odd_only and is_tuning(text))]
        weights = draw_weights(each.name, len(keys), resamples=RESAMPLES, seed=0)
        for system, values in scores[each.name].items():
            sample = np.array([values[metric][key] for key in keys])
            found.setdefault(system, []).append(100 * means(weights, sample))
    return {system: np.stack([*parts, np.mean(parts, axis=0)]) for system, parts in found.items()}


def figures(judged: Sequence[Judged], scores: Mapping[str, Scores]) -> list[dict[str, object]]:
    names = [*(each.name for each in judged), "mean"]
    rows: list[dict[str, object]] = []
    for half, odd_only in (("odd", True), ("all", False)):
        for metric in METRICS:
            for system, replicates in estimates(judged, scores, metric, odd_only=odd_only).items():
                for name, each in zip(names, replicates, strict=True):
                    found = estimate(each)
                    rows.append(
                        {"queries": half, "metric": metric, "system": system, "collection": name, **asdict(found)}
                    )
    return rows


def render(judged: Sequence[Judged], scores: Mapping[str, Scores], facts: Mapping[str, object]) -> str:
    names = [*(each.name for each in judged), "mean"]
    lines = [f"{key}: {value}  " for key, value in facts.items()]
    for half, odd_only in (("the odd half of the queries", True), ("all queries", False)):
        ndcg, recall = (estimates(judged, scores, metric, odd_only=odd_only) for metric in METRICS)
        lines += ["", f"nDCG@10 and recall@10 (×100), {half}:", ""]
        lines += ["| | " + " | ".join(f"{name}" for name in names) + " | recall, mean |"]
        lines += ["| --- |" + " --- |" * (len(names) + 1)]
        for system in ORDER:
            cells = [f"{each[0]:.2f}" for each in ndcg[system]]
            cells[-1] = _interval(estimate(ndcg[system][-1]))
            lines.append(f"| {system} | {' | '.join(cells)} | {_interval(estimate(recall[system][-1]))} |")
        best = max((DENSE, SPARSE), key=lambda system: ndcg[system][-1][0])
        for other in dict.fromkeys((best, MINILM, DBSF, RRF, WEIGHTED_RRF)):
            difference = estimate(ndcg[HYBRID][-1] - ndcg[other][-1])
            lines.append(f"\nHybrid minus {other}: {_interval(difference, sign='+')}")
    return "\n".join(lines)


def _interval(found: Estimate, *, sign: str = "") -> str:
    return f"{found.value:{sign}.2f} [{found.low:{sign}.2f}, {found.high:{sign}.2f}]"


if __name__ == "__main__":
    main()
