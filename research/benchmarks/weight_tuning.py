"""What tuning the weights of legs brings: on three test collections by all judgements of the tuning half of the queries
(even SHA-1), measured on the other half; and by thumbs on the first hits of few queries, measured on all others.

    python -m research.benchmarks.weight_tuning --data FOLDER [--home FOLDER]
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from app.evaluation.weight_validation import choose, cross_validate, grid, ndcg_by_weights
from app.search.bm25 import query_vector
from app.search.fusion import fuse
from app.services import Services
from app.types.documents import ScoredPoint
from app.types.search import Leg, SearchRequest
from embedder.command.standard_output import run_program
from embedder.evaluation.data import is_tuning
from research.benchmarks.hybrid import COLLECTIONS, Judged, ingest, parser_of, read_judged, services_at

THUMBS, QUERIES, DRAWS = 10, (5, 10, 20, 40), 50

Legs = Mapping[Leg, Sequence[ScoredPoint]]


def main() -> None:
    options = parser_of(__doc__).parse_args()
    with services_at(options.home) as services:
        for name in COLLECTIONS:
            judged = read_judged(options.data, name)
            ingest(services, judged)
            report(judged, find_legs(services, judged))


def find_legs(services: Services, judged: Judged) -> dict[str, Legs]:
    """By query; points under the names that the judgements have."""
    uris = {document.id: document.uri for document in services.catalog.documents(judged.name, limit=1_000_000)}

    def renamed(point: ScoredPoint) -> ScoredPoint:
        metadata = point.payload["metadata"]
        assert isinstance(metadata, Mapping)
        return replace(point, payload={"metadata": {"document_id": uris[metadata["document_id"]]}})

    found = {}
    for key, text in judged.queries.items():
        legs = services.search.find_legs(SearchRequest(text, judged.name, ""))
        found[key] = {leg: [renamed(each) for each in points] for leg, points in legs.items()}
    return found


def report(judged: Judged, legs: Mapping[str, Legs]) -> None:
    keys = list(judged.queries)
    terms = {key: len(query_vector(judged.queries[key]).indices) for key in keys}
    whole = np.stack(
        [ndcg_by_weights(legs[key], judged.grades[key], terms=terms[key], judged_alone=False) for key in keys]
    )
    thumbs = np.stack(
        [
            ndcg_by_weights(legs[key], given(judged, key, legs[key], terms[key]), terms=terms[key], judged_alone=True)
            for key in keys
        ]
    )
    tuning = np.array([is_tuning(judged.queries[key]) for key in keys])
    texts = [judged.queries[key] for key in keys]
    best = choose(whole[tuning])
    validation = cross_validate(whole[tuning], list(np.array(texts)[tuning]), judgements=0)
    before, after = whole[~tuning].mean(axis=0)[[0, best]]
    print(
        f"{judged.name}: {tuning.sum()} queries, {said(best)}; cross-validated gain {validation.gain:+.4f} ± ", end=""
    )
    print(f"{validation.standard_error:.4f}, applied: {validation.pays}; the other {(~tuning).sum()}: ", end="")
    print(f"{before:.4f} → {after:.4f}", flush=True)
    for count in (each for each in QUERIES if 2 * each <= len(keys)):
        applied, gains = 0, []
        for seed in range(DRAWS):
            chosen = np.array(random.Random(seed).sample(range(len(keys)), count))
            rest = np.setdiff1d(np.arange(len(keys)), chosen)
            own = thumbs[chosen]
            best = choose(own)
            if best and cross_validate(own, [texts[at] for at in chosen], judgements=0).pays:
                applied += 1
                gains.append(float((whole[rest, best] - whole[rest, 0]).mean()))
        told = f"{np.mean(gains):+.4f} [{min(gains):+.4f}, {max(gains):+.4f}]" if gains else "-"
        print(f"  thumbs on {count} queries: applied {applied} of {DRAWS}, others then {told}", flush=True)


def given(judged: Judged, key: str, legs: Legs, terms: int) -> dict[str, int]:
    """Thumbs on the first documents that the defaults show."""
    points = fuse(legs, terms=terms)
    names = [str(each.payload["metadata"]["document_id"]) for each in points]  # type: ignore[index]
    return {name: 3 * bool(judged.grades[key].get(name)) for name in dict.fromkeys(names[:THUMBS])}


def said(best: int) -> str:
    return ", ".join(f"{leg} {weight:g}" for leg, weight in grid()[best].items() if weight)


if __name__ == "__main__":
    run_program(main)
