"""What the rules of app/search/bm25.py bring: BM25 alone, nDCG@10 on the tuning half of the queries, one rule changed.

In memory, with the index's formula for the IDF, over the chunks that ingestion makes.

python -m benchmarks.lexical --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.sparse import csr_matrix

from app.collections.library import CHUNK_OVERLAP, CHUNK_TOKENS
from app.search import bm25 as lexical
from app.search.bm25 import SparseVector, document_vector, query_vector
from app.settings import Settings
from app.types.documents import ExtractedText
from app.wiring.embedding import LocalEmbedder
from benchmarks.hybrid import COLLECTIONS, Judged, best_documents, per_query, read_judged
from embedder.evaluation.data import is_tuning
from ingest.splitter import TokenSplitter

RULES: tuple[Mapping[str, object], ...] = (
    {},
    {"_stem": str},
    *({"K1": value} for value in (0.9, 1.2, 2.0)),
    *({"B": value} for value in (0.5, 0.9)),
    *({"AVERAGE_WORDS": value} for value in (60, 120, 180)),
)

Chunks = list[tuple[str, str]]  # id of the document, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of ir.NAME.corpus.jsonl.gz and its like")
    options = parser.parse_args()
    judged = [read_judged(options.data, name) for name in COLLECTIONS]
    splitter = TokenSplitter(LocalEmbedder(Settings().model), max_tokens=CHUNK_TOKENS, overlap=CHUNK_OVERLAP)
    chunks = {each.name: split(splitter, each) for each in judged}
    print("| rule | " + " | ".join([*COLLECTIONS, "mean"]) + " |\n| --- |" + " --- |" * (len(COLLECTIONS) + 1))
    for rule in RULES:
        with ExitStack() as changed:
            for name, value in rule.items():
                changed.enter_context(mock.patch.object(lexical, name, value))
            found = [100 * ndcg(each, chunks[each.name]) for each in judged]
        told = ", ".join(f"{name} {value}" for name, value in rule.items()) if "_stem" not in rule else "no stemming"
        print(
            f"| {told or 'as it is'} | {' | '.join(f'{value:.2f}' for value in [*found, np.mean(found)])} |", flush=True
        )


def split(splitter: TokenSplitter, judged: Judged) -> Chunks:
    return [
        (key, text[span.start : span.end])
        for key, text in judged.documents.items()
        if text.strip()
        for span in splitter(ExtractedText(text, title="", media_type="text/plain"))
    ]


def ndcg(judged: Judged, chunks: Chunks) -> float:
    queries = {key: query_vector(text) for key, text in judged.queries.items() if is_tuning(text)}
    places: dict[int, int] = {}
    documents = _matrix([document_vector(text) for _, text in chunks], places)
    frequencies = np.bincount(documents.indices, minlength=len(places))
    idf = np.log((len(chunks) - frequencies + 0.5) / (frequencies + 0.5) + 1)
    rankings = {}
    for key, query in queries.items():
        asked = np.zeros(len(places))
        known = [places[term] for term in query.indices if term in places]
        asked[known] = idf[known]
        scores = documents @ asked
        best = [place for place in np.argsort(-scores, kind="stable")[:100] if scores[place] > 0]
        rankings[key] = best_documents([chunks[place][0] for place in best])
    return float(np.mean(list(per_query(judged, rankings)["ndcg@10"].values())))


def _matrix(vectors: Sequence[SparseVector], places: dict[int, int]) -> csr_matrix:
    rows = [row for row, vector in enumerate(vectors) for _ in vector.indices]
    columns = [places.setdefault(term, len(places)) for vector in vectors for term in vector.indices]
    values = [value for vector in vectors for value in vector.values]
    return csr_matrix((values, (rows, columns)), shape=(len(vectors), len(places)))


if __name__ == "__main__":
    main()
