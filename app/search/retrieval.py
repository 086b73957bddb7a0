"""Retrieves points for a request by vectors, words or both, and applies relevance feedback to the query's vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from app.errors import ConflictError, InputError
from app.ports.parts import SearchedIndex
from app.search.bm25 import query_vector
from app.search.fusion import WEIGHTS, fuse
from app.search.steering import steer_words
from app.types.chunk_text import CONTEXT_KEY, KIND_KEY, PAGE_STARTS_KEY
from app.types.documents import Point, ScoredPoint
from app.types.lens_indexes import Label
from app.types.search import Leg, SearchMode, SearchRequest

VALUE_CANDIDATES = 200  # classified by value; at least twice the limit
DEEPER = 5  # times the limit, with per_document or diversity: one document may hold all of the best points
SPARE = 20  # candidates beyond the limit, to replace near-identical ones and tables
EXCLUSION_CANDIDATES = 50  # compared with excluded phrases; at least twice the limit
PREDICTED_CANDIDATES = 50  # of the query's predicted value, if a lens index has labels
CANDIDATES = 200  # per leg of a hybrid search; at least the limit
LIKE_WEIGHT, UNLIKE_WEIGHT = 0.75, 0.15  # Rocchio's usual ones: Manning, Raghavan & Schütze, section 9.1.1
_SHORTEST = 1e-6  # norm below which a vector has no direction

# Keys that ingestion adds to a point's metadata; all others come from the document.
KEYS_OF_EVERY_CHUNK = frozenset({"document_id", "title", "uri", "ordinal", "start", "end", "page", "text_hash"})
CHUNK_KEYS = KEYS_OF_EVERY_CHUNK | {CONTEXT_KEY, KIND_KEY, PAGE_STARTS_KEY}


LegWeights = Mapping[Leg, float]


class QueryVectors(NamedTuple):
    """The vectors of one query; both are empty in sparse mode."""

    dense: Sequence[float] = ()  # under the instruction; by the base model if nothing steers the query
    plain: Sequence[float] = ()  # by the base model; empty if `dense` is that already, or chunks have no such vectors


# "Find passages that answer" leaves the query's vector where it is (cosine 0.91 to 0.98), "Identify the country" moves
# it (0.2 to 0.74): docs/evaluation/calibration.md
UNMOVED_FROM = 0.85


def changes_similarity(vectors: QueryVectors) -> bool:
    """Whether other passages are similar under the instruction than without it. False if the query has one vector."""
    return len(vectors.plain) > 0 and float(np.dot(vectors.dense, vectors.plain)) < UNMOVED_FROM


class Retrieved(NamedTuple):
    """Points, best first, and the results of each leg of a hybrid search."""

    points: Sequence[ScoredPoint]
    vector: Sequence[float] = ()  # the query's dense vector after like/unlike feedback; empty in sparse mode
    legs: Mapping[Leg, Sequence[ScoredPoint]] = MappingProxyType({})


class LabelChoice(NamedTuple):
    """Selects points by their labels in a lens index.

    With `only`, a search returns only points with this label. With `predicted`, the label predicted for the query, it
    also returns the best PREDICTED_CANDIDATES points with that label, whatever their rank, unless it found as many
    anyway.
    """

    field: str | None = None  # payload field of the labels
    only: Label | None = None
    predicted: Label | None = None
    count: Callable[[Sequence[str]], int] = lambda _: 0  # how many of these point ids have the predicted label


NO_LABELS = LabelChoice()


# Pseudo-relevance feedback treats the first chunks as relevant, moves the query towards them (Rocchio), and searches
# again. Only for collections whose judgements gave it a weight: docs/evaluation/fusion.md
FEEDBACK_CHUNKS, FEEDBACK_WEIGHT = 3, 1.0


def find_candidates(
    index: SearchedIndex,
    name: str,
    request: SearchRequest,
    vectors: QueryVectors,
    *,
    depth: int = 1,
    labels: LabelChoice = NO_LABELS,
    weights: LegWeights = WEIGHTS,
) -> Retrieved:
    """Like `find_points`, with more points than the request's limit if later stages re-rank, classify or drop some.

    depth: multiple of the usual number of points, where later stages dropped too many. Points to be classified by value
    have no payload: only few of them become hits.
    """
    return find_points(
        index,
        name,
        replace(request, limit=retrieved_points(request, depth)),
        vectors,
        labels=labels,
        weights=weights,
        with_payload=not request.values,
    )


def wanted_points(request: SearchRequest) -> int:
    """How many points to retrieve so that enough remain after re-ranking, exclusions and grouping."""
    wanted = request.limit
    if request.per_document or request.diversity:
        wanted *= DEEPER
    elif request.fold_duplicates or request.prefer_prose:
        wanted += max(SPARE, request.limit)
    excluded = max(EXCLUSION_CANDIDATES, 2 * request.limit) if request.exclude else 0
    return max(wanted, request.rerank or 0, excluded)


def retrieved_points(request: SearchRequest, depth: int = 1) -> int:
    """How many points `find_candidates` retrieves if the index has so many: more than wanted to classify by value."""
    wanted = wanted_points(request)
    return depth * (max(VALUE_CANDIDATES, 2 * wanted) if request.values else wanted)


def find_points(
    index: SearchedIndex,
    name: str,
    request: SearchRequest,
    vectors: QueryVectors,
    *,
    labels: LabelChoice = NO_LABELS,
    weights: LegWeights = WEIGHTS,
    with_payload: bool = True,
) -> Retrieved:
    """Searches the index `name` in the request's mode. May return more than the limit, by `labels.predicted`.

    weights: of the legs. Pseudo-relevance feedback runs only if it has a weight. Raises ConflictError if the mode is
    sparse and the index has no sparse vectors, InputError for unknown ids in `like` and `unlike`.
    """
    filters, only = request.filters or None, labels.only
    has_sparse = request.mode is SearchMode.DENSE or index.has_sparse(name)
    if request.mode is SearchMode.SPARSE:
        if not has_sparse:
            raise ConflictError(
                f"The collection {request.collection!r} was indexed by an old release without word search. "
                f"`gircse reindex {request.collection}` brings it up to date; until then, use the mode dense."
            )
        search = partial(index.search_sparse, name, steer_words(request.query, request.token_bias), filters=filters)
        points = search(limit=request.limit, label=only)
        return Retrieved(_joined(points, _predicted_points(search, labels, points)))
    vectors = _moved_vectors(index, name, request, vectors)
    if request.mode is SearchMode.DENSE:
        search = partial(index.search, name, vectors.dense, filters=filters, with_payload=with_payload)
        points = search(limit=request.limit, label=only)
        return Retrieved(_joined(points, _predicted_points(search, labels, points)), vectors.dense)
    # Few of a leg's hundreds of points remain in the end; loading all payloads would take longer than the search.
    legs, leg, towards, predicted = find_legs(
        index,
        name,
        request,
        vectors,
        has_sparse=has_sparse,
        with_feedback=bool(weights.get(Leg.FEEDBACK)),
        labels=labels,
        with_payload=False,
    )
    terms = term_count(request)
    points = fuse(legs, terms=terms, weights=weights, most=request.limit)
    if leg is not Leg.FEEDBACK:
        search = partial(index.search, name, towards, filters=filters, with_payload=False)
        predicted = _predicted_points(search, labels, points)
    if predicted:
        new = {point.id for point in predicted} - {point.id for point in points}
        points += [
            point for point in fuse(legs, terms=terms, weights=weights, beyond={leg: predicted}) if point.id in new
        ]
    return Retrieved(load_payloads(index, name, points) if with_payload else points, vectors.dense, legs)


def term_count(request: SearchRequest) -> int:
    """Number of distinct words that the sparse leg searches for."""
    return len(query_vector(steer_words(request.query, request.token_bias)).indices)


class FoundLegs(NamedTuple):
    """Results of a hybrid search's legs. `last` is the leg that was searched last, `vector` its vector. `predicted` are
    points with the predicted label, if the feedback leg searched for them because the first legs found too few."""

    legs: Mapping[Leg, Sequence[ScoredPoint]]
    last: Leg
    vector: Sequence[float]
    predicted: Sequence[ScoredPoint] = ()


def find_legs(
    index: SearchedIndex,
    name: str,
    request: SearchRequest,
    vectors: QueryVectors,
    *,
    has_sparse: bool = True,
    with_feedback: bool = True,
    labels: LabelChoice = NO_LABELS,
    with_payload: bool = True,
) -> FoundLegs:
    """Searches all legs of a hybrid search. A user's own feedback (like, unlike) switches pseudo-feedback off."""
    filters, only = request.filters or None, labels.only
    candidates = max(CANDIDATES, request.limit)
    queries = {leg: vector for leg, vector in ((Leg.DENSE, vectors.dense), (Leg.PLAIN, vectors.plain)) if len(vector)}
    words = steer_words(request.query, request.token_bias) if has_sparse else ""
    options: Mapping[str, Any] = {"limit": candidates, "filters": filters, "label": only, "with_payload": with_payload}
    dense, sparse = index.search_legs(name, list(queries.values()), words, **options)
    legs = {**dict(zip(queries, dense, strict=True)), Leg.SPARSE: sparse}
    if not with_feedback or request.like or request.unlike:
        return FoundLegs(legs, Leg.DENSE, vectors.dense)
    first = [point.id for point in fuse(legs, terms=term_count(request), most=FEEDBACK_CHUNKS)]
    like = [point.vector for point in index.retrieve(name, first)]
    towards = _towards(queries, like)
    if labels.predicted is None or labels.count([point.id for point in dense[0]]) >= PREDICTED_CANDIDATES:
        legs[Leg.FEEDBACK] = index.search(name, towards, **options)
        return FoundLegs(legs, Leg.FEEDBACK, towards)
    labelled = (labels.predicted, PREDICTED_CANDIDATES)
    legs[Leg.FEEDBACK], predicted = index.search_beside(name, towards, labelled=labelled, **options)
    return FoundLegs(legs, Leg.FEEDBACK, towards, predicted)


def load_payloads(index: SearchedIndex, name: str, points: Sequence[ScoredPoint]) -> list[ScoredPoint]:
    """Adds payloads; leaves out points that were deleted since."""
    payloads = index.payloads(name, [point.id for point in points])
    return [replace(point, payload=payloads[point.id]) for point in points if point.id in payloads]


def _predicted_points(
    search: Callable[..., list[ScoredPoint]], labels: LabelChoice, found: Sequence[ScoredPoint]
) -> list[ScoredPoint]:
    """The best points with the predicted label. Empty if `found` has enough of them: these are then the best."""
    if labels.predicted is None or labels.count([point.id for point in found]) >= PREDICTED_CANDIDATES:
        return []
    return search(limit=PREDICTED_CANDIDATES, label=labels.predicted)


def _joined(found: Sequence[ScoredPoint], more: Sequence[ScoredPoint]) -> list[ScoredPoint]:
    known = {point.id for point in found}
    return [*found, *(point for point in more if point.id not in known)]


def _towards(queries: Mapping[Leg, Sequence[float]], like: Sequence[Sequence[float]]) -> Sequence[float]:
    """Rocchio: the weighted mean of the query's vectors plus FEEDBACK_WEIGHT times the mean of `like`, as a unit
    vector."""
    vectors = np.asarray(list(queries.values()), dtype=np.float64)
    query = np.average(vectors, axis=0, weights=[WEIGHTS[leg] for leg in queries])
    query /= max(float(np.linalg.norm(query)), _SHORTEST)
    moved = _add_means(query, (FEEDBACK_WEIGHT, like))
    return (moved / max(float(np.linalg.norm(moved)), _SHORTEST)).tolist()


def move_vector(
    vector: Sequence[float], *, like: Sequence[Sequence[float]], unlike: Sequence[Sequence[float]]
) -> list[float]:
    """Rocchio: moves the vector towards the mean of `like` and away from the mean of `unlike`; returns a unit vector.

    Raises InputError if the result is (nearly) zero.
    """
    moved = _add_means(np.asarray(vector, dtype=np.float64), (LIKE_WEIGHT, like), (-UNLIKE_WEIGHT, unlike))
    length = float(np.linalg.norm(moved))
    if length < _SHORTEST:
        raise InputError("like and unlike cancel the query's vector; remove one of them.")
    return (moved / length).tolist()


def _add_means(vector: np.ndarray, *weighted: tuple[float, Sequence[Sequence[float]]]) -> np.ndarray:
    """Rocchio's sum: the vector plus the weighted mean of each non-empty group."""
    for weight, others in weighted:
        if others:
            vector = vector + weight * np.mean(np.asarray(others, dtype=np.float64), axis=0)
    return vector


def _moved_vectors(index: SearchedIndex, name: str, request: SearchRequest, vectors: QueryVectors) -> QueryVectors:
    """Applies like and unlike to the query's vectors. Raises InputError if the collection lacks one of the chunks."""
    if not request.like and not request.unlike:
        return vectors
    found: dict[str, Point] = {
        point.id: point
        for point in index.retrieve(name, [*request.like, *request.unlike])
        if is_by_gircse(point.payload)
    }
    for chunk_id in (*request.like, *request.unlike):
        if chunk_id not in found:
            raise InputError(f"The collection {request.collection!r} has no chunk {chunk_id} (in like or unlike).")
    like, unlike = ([found[chunk].vector for chunk in dict.fromkeys(ids)] for ids in (request.like, request.unlike))
    return QueryVectors(
        *(move_vector(vector, like=like, unlike=unlike) if len(vector) else vector for vector in vectors)
    )


def is_by_gircse(payload: Mapping[str, object]) -> bool:
    """Whether gircse wrote the point, by its payload: it has a text and all metadata keys that ingestion writes."""
    metadata = payload.get("metadata")
    return "page_content" in payload and isinstance(metadata, Mapping) and metadata.keys() >= KEYS_OF_EVERY_CHUNK
