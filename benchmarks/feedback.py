"""What "more like this" and "less like this" bring: dense search on the tuning half of the queries, before and after.

A person likes the best hit that answers, or unlikes the best that does not. Both are then left out of the ranking and
of the judgements, so that only the rest counts (nDCG@10 ×100).

python -m benchmarks.feedback --data FOLDER [--home FOLDER] [--vectors FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from app.search import retrieval as lookup
from app.services import Services
from app.settings import Settings
from app.types.search import MAX_LIMIT, Hit, SearchRequest
from benchmarks.hybrid import COLLECTIONS, Judged, best_documents, ingest, open_application, per_query, read_judged
from embedder.evaluation.data import is_tuning

LIKE_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
UNLIKE_WEIGHTS = (0.05, 0.15, 0.25, 0.5)
_LOOKED_AT = 20  # hits that a person reads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of ir.NAME.corpus.jsonl.gz and its like")
    parser.add_argument("--home", type=Path, help="kept between runs, and shared with benchmarks.hybrid")
    parser.add_argument("--vectors", type=Path, help="an .npz file of vectors that were computed before; grows")
    options = parser.parse_args()
    judged = [read_judged(options.data, name) for name in COLLECTIONS]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=options.home or Path(folder))
        with open_application(settings, options.vectors) as services:
            for each in judged:
                ingest(services, each)
            print(
                "| weights | " + " | ".join([*COLLECTIONS, "mean"]) + " |\n| --- |" + " --- |" * (len(COLLECTIONS) + 1)
            )
            for like, unlike in [
                *((weight, 0.0) for weight in LIKE_WEIGHTS),
                *((0.0, weight) for weight in UNLIKE_WEIGHTS),
            ]:
                with mock.patch.multiple(lookup, LIKE_WEIGHT=like, UNLIKE_WEIGHT=unlike):
                    found = [100 * ndcg(services, each, likes=like > 0, unlikes=unlike > 0) for each in judged]
                told = f"like {like}" if like else f"unlike {unlike}" if unlike else "neither"
                print(f"| {told} | {' | '.join(f'{value:.2f}' for value in [*found, np.mean(found)])} |", flush=True)


def ndcg(services: Services, judged: Judged, *, likes: bool, unlikes: bool) -> float:
    rankings, grades = {}, {}
    for key, text in judged.queries.items():
        if not is_tuning(text):
            continue
        request = SearchRequest(text, judged.name, instruction=judged.instructions[key], limit=MAX_LIMIT)
        hits = services.search.search(request, explain=False).hits
        answers, others = _chosen(hits, judged.grades[key], good=True), _chosen(hits, judged.grades[key], good=False)
        if likes or unlikes:
            like = tuple(hit.chunk.id for hit in answers if likes)
            unlike = tuple(hit.chunk.id for hit in others if unlikes)
            hits = services.search.search(replace(request, like=like, unlike=unlike), explain=False).hits
        seen = {hit.document.uri for hit in (*answers, *others)}
        rest = {document: grade for document, grade in judged.grades[key].items() if document not in seen}
        if max(rest.values(), default=0) > 0:
            grades[key] = rest
            rankings[key] = best_documents([hit.document.uri for hit in hits if hit.document.uri not in seen])
    return float(np.mean(list(per_query(replace(judged, grades=grades), rankings)["ndcg@10"].values())))


def _chosen(hits: tuple[Hit, ...], grades: Mapping[str, int], *, good: bool) -> tuple[Hit, ...]:
    """The best hit that answers, or that does not."""
    return tuple(hit for hit in hits[:_LOOKED_AT] if (grades.get(hit.document.uri, 0) > 0) is good)[:1]


if __name__ == "__main__":
    main()
