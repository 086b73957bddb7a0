"""Retrieval by vectors, by words and by both, as users get it: ingested, indexed and searched by the services.

Beside them BM25 of bm25s, plain MiniLM, each leg left out, and other ways to fuse the same legs. Weights are chosen on
the tuning half of the queries (even SHA-1 of the text); the table reports the other half, and all.

python -m research.benchmarks.hybrid --data FOLDER [--home FOLDER] [--into docs/evaluation]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

import ir_measures
import numpy as np
from ir_measures import R, nDCG
from qdrant_client import models
from qdrant_client.hybrid.fusion import distribution_based_score_fusion, reciprocal_rank_fusion
from tqdm.auto import tqdm

from app.search.bm25 import query_vector
from app.search.fusion import WEIGHTS, fuse
from app.search.retrieval import CANDIDATES, QueryVectors
from app.services import Services
from app.settings import Settings
from app.types.documents import JobState, ScoredPoint, Source
from app.types.search import Leg, SearchMode, SearchRequest
from app.wiring.ingestion import run_worker
from app.wiring.services import open_services
from embedder.command.standard_output import run_program
from embedder.evaluation.bootstrap import BootstrapEstimate, draw_weights, estimate, means
from embedder.evaluation.data import is_tuning, read_rows
from embedder.evaluation.embedders import MiniLmEmbedder, bm25_scores
from embedder.evaluation.machine import cpu_name

COLLECTIONS = ("cranfield", "medline_med", "stackfaq")
METRICS = {"ndcg@10": nDCG @ 10, "recall@10": R @ 10}
DEPTH = 10
HITS = 40  # asked for, so that among them are ten documents
GRID = [  # of dense, plain, sparse
    {Leg.DENSE: dense, Leg.PLAIN: plain, Leg.SPARSE: round(1 - dense - plain, 3)}
    for dense, plain in (
        (0.75, 0),
        (0, 0.75),
        (0.5, 0.25),
        (0.375, 0.375),
        (0.25, 0.5),
        (0.4, 0.4),
        (0.35, 0.35),
        (0.3, 0.3),
    )
]
RESAMPLES = 2_000
_HANDED_IN = 500
_LOOK_S = 20

DEFAULT = "hybrid, no instruction (the default)"
HYBRID, FIRST_RANKING = "hybrid, instructed", "hybrid, instructed, without re-ranking"
DENSE, PLAIN, SPARSE = "dense: the model, instructed", "plain: its base", "sparse: BM25 of the index"
NO_PLAIN, NO_DENSE = "without the leg plain", "without the leg dense"
DBSF, RRF = "legs fused by DBSF", "legs fused by RRF, k = 2"
BM25S, MINILM, MINILM_BM25 = "bm25s alone", "MiniLM alone", "MiniLM and bm25s, weighted sum of shares"

ORDER = (
    DEFAULT,
    HYBRID,
    FIRST_RANKING,
    DENSE,
    PLAIN,
    SPARSE,
    NO_PLAIN,
    NO_DENSE,
    DBSF,
    RRF,
    BM25S,
    MINILM,
    MINILM_BM25,
)

Ranking = list[str]  # ids of documents, best first
Legs = dict[Leg, list[ScoredPoint]]
Scores = dict[str, dict[str, dict[str, float]]]  # system → metric → query → value


@dataclass(frozen=True, slots=True)
class Judged:
    """A test collection; documents carry no instruction, queries that of the file. Titles stand in `documents`, too."""

    name: str
    documents: Mapping[str, str]
    titles: Mapping[str, str]
    texts: Mapping[str, str]  # without the titles
    queries: Mapping[str, str]
    instructions: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class Found:
    """By system, then by query."""

    rankings: dict[str, dict[str, Ranking]] = field(default_factory=dict)
    legs: dict[str, Legs] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)

    def add(self, system: str, query: str, ranking: Ranking) -> None:
        self.rankings.setdefault(system, {})[query] = ranking


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--into", type=Path, help="write hybrid.json there, as it stands in the documentation")
    options = parser.parse_args()
    judged = [read_judged(options.data, name) for name in COLLECTIONS]
    with services_at(options.home) as services:
        found = {each.name: search(services, each) for each in judged}
        model = f"{services.embedder.info.name}, {services.embedder.info.default_query_steps} query steps"
    minilm = MiniLmEmbedder()
    for each in judged:
        rank_baselines(minilm, each, found[each.name])
        fuse_otherwise(found[each.name])
    chosen = tune(judged, found)
    facts = {"model": model, "machine": cpu_name(), "candidates of each leg": CANDIDATES, **chosen}
    scores = {each.name: measure(each, found[each.name]) for each in judged}
    print(render(judged, scores, facts))
    if options.into:
        content = {"facts": facts, "figures": figures(judged, scores)}
        (options.into / "hybrid.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder of ir.NAME.corpus.jsonl.gz and its like")
    parser.add_argument("--home", type=Path, help="kept between runs: what is ingested there is not ingested again")
    return parser


@contextmanager
def services_at(home: Path | None) -> Iterator[Services]:
    """Of a home that is kept, or of one that goes."""
    with tempfile.TemporaryDirectory() as folder, open_services(Settings(home=home or Path(folder))) as services:
        yield services


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
        titles={row["_id"]: row.get("title", "") for row in corpus},
        texts={row["_id"]: row["text"] for row in corpus},
        queries={row["_id"]: row["text"] for row in answered},
        instructions={row["_id"]: row.get("instruction", "") for row in answered},
        grades={row["_id"]: grades[row["_id"]] for row in answered},
    )


def ingest(services: Services, judged: Judged) -> None:
    """As a person would: documents are handed in, and a worker makes them searchable."""
    services.library.ensure_collection(judged.name)
    sources = [
        Source(key, key, "text/plain", data=text.encode(), title=judged.titles[key])
        for key, text in judged.texts.items()
        if text.strip()
    ]
    for start in range(0, len(sources), _HANDED_IN):
        services.library.add_documents(judged.name, sources[start : start + _HANDED_IN])
    work_off(services, judged.name)


def work_off(services: Services, collection: str) -> None:
    """Raises SystemExit if a document of the collection could not be ingested."""
    stop = threading.Event()
    worker = threading.Thread(target=run_worker, args=(services, stop))
    worker.start()
    try:
        while (left := _open_jobs(services, collection)) and worker.is_alive():
            print(f"{collection}: {left} documents to go", flush=True)
            time.sleep(_LOOK_S)
    finally:
        stop.set()
        worker.join()
    if dead := services.catalog.job_counts(collection).get(JobState.DEAD, 0):
        raise SystemExit(f"{dead} documents of {collection} could not be ingested: gircse jobs list --state dead")


def _open_jobs(services: Services, name: str) -> int:
    counts = services.catalog.job_counts(name)
    return sum(counts.get(state, 0) for state in (JobState.QUEUED, JobState.RUNNING))


def search(services: Services, judged: Judged) -> Found:
    """Each query in each mode, and all legs as they are fetched for a hybrid search."""
    ingest(services, judged)
    found = Found()
    index = services.catalog.collection(judged.name).active_index
    uris = {document.id: document.uri for document in services.catalog.documents(judged.name, limit=1_000_000)}

    def ranking(request: SearchRequest) -> Ranking:
        hits = services.search.search(replace(request, limit=HITS), highlight=False).hits
        return best_documents([hit.document.uri for hit in hits])

    for key, text in tqdm(judged.queries.items(), desc=judged.name, unit="query"):
        asked = SearchRequest(text, judged.name, mode=SearchMode.HYBRID)
        instructed = replace(asked, instruction=judged.instructions[key])
        found.add(DEFAULT, key, ranking(asked))
        found.add(HYBRID, key, ranking(instructed))
        found.add(FIRST_RANKING, key, ranking(replace(instructed, rerank=0)))
        found.add(DENSE, key, ranking(replace(instructed, mode=SearchMode.DENSE)))
        found.add(PLAIN, key, ranking(replace(asked, mode=SearchMode.DENSE, instruction="", steps=0)))
        found.add(SPARSE, key, ranking(replace(asked, mode=SearchMode.SPARSE)))
        vectors = QueryVectors(  # remembered by the service
            services.search.refine(text, instruction=judged.instructions[key]).vector.tolist(),
            services.search.refine(text, instruction="", steps=0).vector.tolist(),
        )
        (dense, plain), sparse = services.index.search_legs(index, vectors, text, limit=CANDIDATES)
        legs = {Leg.DENSE: dense, Leg.PLAIN: plain, Leg.SPARSE: sparse}
        found.legs[key] = {leg: [_of_document(point, uris) for point in points] for leg, points in legs.items()}
        found.terms[key] = len(query_vector(text).indices)
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
    plain = minilm.embed(asked, instruction="", steps=())[None] @ vectors.T
    words = bm25_scores(asked, texts)
    both = sum(
        weight * scores / np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
        for weight, scores in ((1 - WEIGHTS[Leg.SPARSE], plain), (WEIGHTS[Leg.SPARSE], words))
    )
    for system, scores in ((BM25S, words), (MINILM, plain), (MINILM_BM25, both)):
        for key, row in zip(queries, scores, strict=True):
            found.add(system, key, [documents[place] for place in np.argsort(-row, kind="stable")[:DEPTH]])


def fuse_otherwise(found: Found) -> None:
    """Without a leg, and by Qdrant's own fusions of the same legs, by its client."""
    for key, legs in found.legs.items():
        terms = found.terms[key]
        for system, without in ((NO_PLAIN, Leg.PLAIN), (NO_DENSE, Leg.DENSE)):
            rest = {leg: each for leg, each in legs.items() if leg is not without}
            found.add(system, key, by_shares(rest, WEIGHTS, terms))
        found.add(DBSF, key, _documents_of(distribution_based_score_fusion(_for_client(legs), limit=2 * CANDIDATES)))
        found.add(RRF, key, _documents_of(reciprocal_rank_fusion(_for_client(legs), limit=2 * CANDIDATES)))


def tune(judged: Sequence[Judged], found: Mapping[str, Found]) -> dict[str, str]:
    """The weights of legs that are best on the tuning half."""
    by_weights = {
        _said(weights): tuning_mean(
            judged,
            {
                each.name: {
                    key: by_shares(legs, weights, found[each.name].terms[key])
                    for key, legs in found[each.name].legs.items()
                }
                for each in judged
            },
        )
        for weights in GRID
    }
    means_of = "; ".join(f"{choice}: {value:.2f}" for choice, value in by_weights.items())
    print("dense / plain / sparse, tuning half:", means_of)
    return {
        "weights in use": _said(WEIGHTS),
        "weights that are best on the tuning half": max(by_weights, key=by_weights.__getitem__),
    }


def _said(weights: Mapping[Leg, float]) -> str:
    return " / ".join(f"{weights[leg]:g}" for leg in (Leg.DENSE, Leg.PLAIN, Leg.SPARSE))


def by_shares(legs: Mapping[Leg, Sequence[ScoredPoint]], weights: Mapping[Leg, float], terms: int) -> Ranking:
    return best_documents([_uri(each) for each in fuse(legs, terms=terms, weights=weights)])


def _documents_of(fused: Sequence[models.ScoredPoint]) -> Ranking:
    return best_documents([str(point.payload["uri"]) for point in fused if point.payload])


def _for_client(legs: Legs) -> list[list[models.ScoredPoint]]:
    """Made anew, since the client writes the fused scores into them."""
    return [
        [models.ScoredPoint(id=each.id, version=0, score=each.score, payload=dict(each.payload)) for each in leg]
        for leg in legs.values()
    ]


def _uri(point: ScoredPoint) -> str:
    return str(point.payload["uri"])


def tuning_mean(judged: Sequence[Judged], rankings: Mapping[str, Mapping[str, Ranking]]) -> float:
    """nDCG@10 of the tuning half, mean over collections. `rankings` by collection, then by query."""
    values = []
    for each in judged:
        tuned = {key: rankings[each.name][key] for key, text in each.queries.items() if is_tuning(text)}
        values.append(np.mean(list(per_query(each, tuned)["ndcg@10"].values())))
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
        for other in (HYBRID, MINILM, MINILM_BM25, DBSF, RRF):
            for at, name in enumerate(names):
                difference = estimate(ndcg[DEFAULT][at] - ndcg[other][at])
                lines.append(f"\nThe default minus {other}, {name}: {_interval(difference, sign='+')}")
    return "\n".join(lines)


def _interval(found: BootstrapEstimate, *, sign: str = "") -> str:
    return f"{found.value:{sign}.2f} [{found.low:{sign}.2f}, {found.high:{sign}.2f}]"


if __name__ == "__main__":
    run_program(main)
