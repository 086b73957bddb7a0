"""How meaning and words are fused: nDCG@10 of either alone, of the product's fusion, of the fusion before it, and of
usual formulas. On fourteen collections on which the product's fusion was chosen, or on others of public repositories.

Ranks whole documents (of which the model reads 256 tokens), not chunks of an index, so that a formula takes seconds.
No query carries an instruction. Of a collection of pairs 300 queries are asked, with 1,500 documents.

python -m research.benchmarks.fusion --data FOLDER --cache FOLDER
python -m research.benchmarks.fusion --public FOLDER [--fetch] --cache FOLDER
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import ir_measures
import numpy as np
from ir_measures import nDCG

from app.search.bm25 import document_vector, query_vector
from app.search.fusion import UNREAD_WEIGHTS, WEIGHTS, fuse
from app.search.query_language import ENGLISH, unread_language
from app.types.documents import ScoredPoint
from app.types.search import Leg
from embedder.command.standard_output import run_program
from embedder.evaluation.embedders import MiniLmEmbedder
from research.benchmarks.judged_collections import JUDGED, PAIRS, SECTIONS, Collection, read_collection
from research.benchmarks.public_collections import COLLECTIONS, FILES, TRANSLATED, read_public
from research.benchmarks.reading import write_files

CANDIDATES, DEPTH = 200, 10
QUERIES = 400
READ_CHARACTERS = 1600


@dataclass(frozen=True, slots=True)
class Query:
    """Cosines and BM25 scores of all documents (n,); `vectors` (n, D) and `vector` (D,) for feedback."""

    cosines: np.ndarray
    words: np.ndarray
    terms: int
    vectors: np.ndarray
    vector: np.ndarray
    is_unread: bool  # in another language than the model reads


Ranking = Sequence[int]  # of documents, best first


def queries_of(collection: Collection, asked: Sequence[str], cache: Path, model: MiniLmEmbedder) -> Iterator[Query]:
    texts = [text[:READ_CHARACTERS] for text in collection.documents.values()]
    if not cache.exists():
        vectors = model.embed(texts, instruction="", steps=())[None]
        questions = model.embed([collection.queries[key] for key in asked], instruction="", steps=())[None]
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.savez(cache, documents=vectors, queries=questions)
    kept = np.load(cache)
    postings: dict[int, list[tuple[int, float]]] = {}
    for at, text in enumerate(collection.documents.values()):
        sparse = document_vector(text)
        for term, value in zip(sparse.indices, sparse.values, strict=True):
            postings.setdefault(term, []).append((at, value))
    for key, vector in zip(asked, kept["queries"], strict=True):
        terms = query_vector(collection.queries[key]).indices
        words = np.zeros(len(texts))
        for term in terms:
            found = postings.get(term, ())
            rarity = math.log(1 + (len(texts) - len(found) + 0.5) / (len(found) + 0.5))
            for at, value in found:
                words[at] += value * rarity
        is_unread = unread_language(collection.queries[key], ENGLISH) is not None
        yield Query(kept["documents"] @ vector, words, len(terms), kept["documents"], vector, is_unread)


def best(scores: np.ndarray, *, positive: bool = False) -> list[int]:
    order = np.argsort(-scores, kind="stable")[:CANDIDATES].tolist()
    return [at for at in order if scores[at] > 0] if positive else order


def legs_of(cosines: np.ndarray, words: np.ndarray) -> dict[Leg, list[ScoredPoint]]:
    return {
        Leg.DENSE: [ScoredPoint(str(at), float(cosines[at]), {}) for at in best(cosines)],
        Leg.SPARSE: [ScoredPoint(str(at), float(words[at]), {}) for at in best(words, positive=True)],
    }


def by_meaning(query: Query) -> Ranking:
    return best(query.cosines)


def by_words(query: Query) -> Ranking:
    return best(query.words, positive=True)


def as_in_the_product(query: Query) -> Ranking:
    weights = UNREAD_WEIGHTS if query.is_unread else WEIGHTS
    return [int(point.id) for point in fuse(legs_of(query.cosines, query.words), terms=query.terms, weights=weights)]


def by_shares(query: Query, cosines: np.ndarray | None = None, words_weight: float = 0.25) -> Ranking:
    """Each score divided by the best of its leg; a passage without a cosine counts with the lowest one."""
    cosines = query.cosines if cosines is None else cosines
    dense, sparse = best(cosines), best(query.words, positive=True)
    weight = words_weight if sparse else 0.0
    least = cosines[dense[-1]] / cosines[dense[0]]
    by_vector = {at: cosines[at] / cosines[dense[0]] for at in dense}
    by_word = {at: query.words[at] / query.words[sparse[0]] for at in sparse}
    totals = {
        at: (1 - weight) * by_vector.get(at, least) + weight * by_word.get(at, 0.0) for at in sorted({*dense, *sparse})
    }
    return sorted(totals, key=lambda at: -totals[at])


def by_shares_with_feedback(query: Query) -> Ranking:
    """The default before: shares, then a vector that is moved towards the first three, and shares again."""
    moved = query.vector + query.vectors[by_shares(query)[:3]].mean(axis=0)
    return by_shares(query, query.vectors @ (moved / np.linalg.norm(moved)), 0.3)


def by_ranks(query: Query) -> Ranking:
    """Reciprocal rank fusion, k = 60 (Cormack, Clarke & Büttcher, 2009)."""
    totals: dict[int, float] = {}
    for ranking in (by_meaning(query), by_words(query)):
        for rank, at in enumerate(ranking, start=1):
            totals[at] = totals.get(at, 0.0) + 1 / (60 + rank)
    return sorted(totals, key=lambda at: -totals[at])


def by_deviations(query: Query) -> Ranking:
    """Scores in deviations of their leg, 0.8 for meaning."""
    scores = 0.8 * _standardised(query.cosines, best(query.cosines))
    return best(scores + 0.2 * _standardised(query.words, best(query.words, positive=True)))


def _standardised(scores: np.ndarray, leg: Sequence[int]) -> np.ndarray:
    values = scores[leg] if leg else np.zeros(1)
    return (scores - values.mean()) / max(float(values.std()), 1e-6)


FORMULAS: Mapping[str, Callable[[Query], Ranking]] = {
    "meaning alone": by_meaning,
    "words alone": by_words,
    "the product": as_in_the_product,
    "shares with feedback (before)": by_shares_with_feedback,
    "shares": by_shares,
    "reciprocal ranks": by_ranks,
    "deviations": by_deviations,
}


def measure(name: str, collection: Collection, cache: Path, model: MiniLmEmbedder) -> dict[str, float]:
    """nDCG@10 of every formula, ×100."""
    asked = sorted(collection.queries)
    asked = random.Random(5).sample(asked, min(QUERIES, len(asked)))
    documents = list(collection.documents)
    rankings: dict[str, dict[str, dict[str, float]]] = {formula: {} for formula in FORMULAS}
    for key, query in zip(asked, queries_of(collection, asked, cache / f"{name}.npz", model), strict=True):
        for formula, rank in FORMULAS.items():
            found = rank(query)[:DEPTH]
            rankings[formula][key] = {documents[at]: -float(place) for place, at in enumerate(found)}
    grades = {key: dict(collection.grades[key]) for key in asked}
    return {
        formula: 100 * ir_measures.calc_aggregate([nDCG @ DEPTH], grades, run)[nDCG @ DEPTH]
        for formula, run in rankings.items()
    }


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """rows: nDCG@10 by formula, by collection."""
    lines = ["| | " + " | ".join(FORMULAS) + " |", "|" + " --- |" * (len(FORMULAS) + 1)]
    lines += [_line(name, [row[formula] for formula in FORMULAS]) for name, row in rows.items()]
    lines.append(_line("**mean**", [mean(row[formula] for row in rows.values()) for formula in FORMULAS]))
    better = {name: max(row["meaning alone"], row["words alone"]) for name, row in rows.items()}
    least = [min(row[formula] - better[name] for name, row in rows.items()) for formula in FORMULAS]
    lines.append(_line("least difference to the better of meaning and words", least))
    return "\n".join(lines)


def _line(name: str, values: Sequence[float]) -> str:
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="folder of train/, dev/, dev2/ and answers/")
    source.add_argument("--public", type=Path, help="folder of files of public repositories")
    parser.add_argument("--fetch", action="store_true", help="put those files there, from GitHub")
    parser.add_argument("--cache", type=Path, required=True, help="folder for vectors")
    options = parser.parse_args()
    if options.fetch and not options.public:
        parser.error("--fetch puts files of public repositories into the folder of --public.")
    model = MiniLmEmbedder()
    if options.fetch:
        write_files(FILES, options.public)
    english = tuple(name for name in COLLECTIONS if name not in TRANSLATED)
    for names in (english, TRANSLATED) if options.public else ((*JUDGED, SECTIONS, *PAIRS),):
        rows = {}
        for name in names:
            collection = read_public(options.public, name) if options.public else read_collection(options.data, name)
            rows[name] = measure(name, collection, options.cache, model)
            print(name, json.dumps({formula: round(value, 1) for formula, value in rows[name].items()}), flush=True)
        print(f"\n{table(rows)}\n")


if __name__ == "__main__":
    run_program(main)
