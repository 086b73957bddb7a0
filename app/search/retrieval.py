"""What the index finds for a request: by vectors, by the words, or by all of them; and where feedback moves vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from app.errors import ConflictError, InputError
from app.ports.parts import SearchedIndex
from app.search.fusion import WEIGHTS, WEIGHTS_AFTER_FEEDBACK, fuse
from app.search.steering import steer_words
from app.types.chunk_text import CONTEXT_KEY, KIND_KEY, PAGE_STARTS_KEY
from app.types.documents import Point, ScoredPoint
from app.types.lens_indexes import Label
from app.types.search import Leg, SearchMode, SearchRequest

VALUE_CANDIDATES = 200  # that are read as values, or twice the limit where that is more
DEEPER = 5  # times the limit, where some of the best may not be wanted: one document may have all of them
SPARE = 20  # candidates beyond the limit, in the place of near-identical ones and tables
EXCLUSION_CANDIDATES = 50  # that may rank lower, or twice the limit where that is more
LIKELY_CANDIDATES = 50  # of the query's own value, where a lens index knows them
CANDIDATES = 200  # of each leg of a hybrid search, or the limit where that is more
LIKE_WEIGHT, UNLIKE_WEIGHT = 0.75, 0.15  # Rocchio's of old, as in Manning, Raghavan & Schütze, section 9.1.1
_SHORTEST = 1e-6

# Keys that ingestion adds to a point's metadata; the rest is the document's own.
KEYS_OF_EVERY_CHUNK = frozenset({"document_id", "title", "uri", "ordinal", "start", "end", "page", "text_hash"})
CHUNK_KEYS = KEYS_OF_EVERY_CHUNK | {CONTEXT_KEY, KIND_KEY, PAGE_STARTS_KEY}


LegWeights = Mapping[Leg, float]


class QueryVectors(NamedTuple):
    """Of one query; both empty in sparse mode."""

    dense: Sequence[float] = ()  # under the instruction; of the base model where nothing steers it
    plain: Sequence[float] = ()  # of the base model; empty where `dense` is that, and where no chunk has one of it


class Retrieved(NamedTuple):
    """Points, best first, the vector that they were searched with, which is the query's, moved by feedback, and what
    each leg of a hybrid search found."""

    points: Sequence[ScoredPoint]
    vector: Sequence[float] = ()  # empty in sparse mode
    legs: Mapping[Leg, Sequence[ScoredPoint]] = MappingProxyType({})


class LabelChoice(NamedTuple):
    """By labels of a lens index: `only` points that have this one are found; of those that have the `likely` one, which
    is the query's own, the best LIKELY_CANDIDATES are found whatever comes before them, unless `count` tells of as many
    among those that were found anyway."""

    field: str | None = None  # that holds the labels
    only: Label | None = None
    likely: Label | None = None
    count: Callable[[Sequence[str]], int] = lambda _: 0  # how many of these ids have the likely one


NO_LABELS = LabelChoice()


class PseudoFeedback(NamedTuple):
    """What is found first is taken for relevant: the query is moved towards it (Rocchio), and asked once more."""

    chunks: int = 3
    weight: float = 1.0


# Chosen on the tuning half: docs/evaluation/hybrid.md
PSEUDO_FEEDBACK = PseudoFeedback()


def find_candidates(
    index: SearchedIndex,
    name: str,
    request: SearchRequest,
    vectors: QueryVectors,
    *,
    labels: LabelChoice = NO_LABELS,
    weights: LegWeights = WEIGHTS_AFTER_FEEDBACK,
) -> Retrieved:
    """As `find_points`; more points than the request's limit where they are to be ranked again, or read as values, or
    some of them may not be wanted. Those that are read as values come without payloads: few of them are left."""
    return find_points(
        index,
        name,
        replace(request, limit=_read_as_values(request) if request.values else wanted_points(request)),
        vectors,
        labels=labels,
        weights=weights,
        with_payload=not request.values,
    )


def wanted_points(request: SearchRequest) -> int:
    """How many points may become hits."""
    wanted = request.limit
    if request.per_document or request.diversity:
        wanted *= DEEPER
    elif request.fold_duplicates or request.prefer_prose:
        wanted += max(SPARE, request.limit)
    excluded = max(EXCLUSION_CANDIDATES, 2 * request.limit) if request.exclude else 0
    return max(wanted, request.rerank or 0, excluded)


def _read_as_values(request: SearchRequest) -> int:
    return max(VALUE_CANDIDATES, 2 * wanted_points(request))


def find_points(
    index: SearchedIndex,
    name: str,
    request: SearchRequest,
    vectors: QueryVectors,
    *,
    feedback: PseudoFeedback = PSEUDO_FEEDBACK,
    labels: LabelChoice = NO_LABELS,
    weights: LegWeights = WEIGHTS_AFTER_FEEDBACK,
    with_payload: bool = True,
) -> Retrieved:
    """Of the index `name`; beyond the limit the best LIKELY_CANDIDATES that have the likely label. `weights`: of the
    legs, after pseudo-relevance feedback.

    Raises ConflictError when the index keeps no words but the mode is sparse, InputError for unknown feedback.
    """
    filters, only = request.filters or None, labels.only
    has_sparse = request.mode is SearchMode.DENSE or index.has_sparse(name)
    if request.mode is SearchMode.SPARSE:
        if not has_sparse:
            raise ConflictError(
                f"The collection {request.collection!r} was indexed by a release that could not search by words. "
                f"`gircse reindex {request.collection}` brings it up to date; meanwhile the mode dense works."
            )
        ask = partial(index.search_sparse, name, steer_words(request.query, request.token_bias), filters=filters)
        return Retrieved(_joined(found := ask(limit=request.limit, label=only), _likely(ask, labels, found)))
    vectors = _moved_vectors(index, name, request, vectors)
    if request.mode is SearchMode.DENSE:
        ask = partial(index.search, name, vectors.dense, filters=filters, with_payload=with_payload)
        found = ask(limit=request.limit, label=only)
        return Retrieved(_joined(found, _likely(ask, labels, found)), vectors.dense)
    # Of a leg's hundreds of points few are left in the end: what all of them hold would take longer than the search.
    legs, leg, towards, likely = find_legs(
        index, name, request, vectors, has_sparse=has_sparse, feedback=feedback, labels=labels, with_payload=False
    )
    weights = weights if leg is Leg.FEEDBACK else WEIGHTS
    points = fuse(legs, weights=weights, most=request.limit)
    if leg is not Leg.FEEDBACK:
        ask = partial(index.search, name, towards, filters=filters, with_payload=False)
        likely = _likely(ask, labels, points)
    if likely:
        new = {point.id for point in likely} - {each.id for each in points}
        points += [each for each in fuse(legs, weights=weights, beyond={leg: likely}) if each.id in new]
    return Retrieved(load_payloads(index, name, points) if with_payload else points, vectors.dense, legs)


class FoundLegs(NamedTuple):
    """What each leg finds; the one that was asked last, with its vector, and what that finds of the likely label where
    it was feedback and the first legs found too few."""

    legs: Mapping[Leg, Sequence[ScoredPoint]]
    last: Leg
    vector: Sequence[float]
    likely: Sequence[ScoredPoint] = ()


def find_legs(
    index: SearchedIndex,
    name: str,
    request: SearchRequest,
    vectors: QueryVectors,
    *,
    has_sparse: bool = True,
    feedback: PseudoFeedback = PSEUDO_FEEDBACK,
    labels: LabelChoice = NO_LABELS,
    with_payload: bool = True,
) -> FoundLegs:
    """Of a hybrid search. With feedback of a person the first ranks are not taken for relevant."""
    filters, only = request.filters or None, labels.only
    candidates = max(CANDIDATES, request.limit)
    asked = {leg: each for leg, each in ((Leg.DENSE, vectors.dense), (Leg.PLAIN, vectors.plain)) if len(each)}
    words = steer_words(request.query, request.token_bias) if has_sparse else ""
    options: Mapping[str, Any] = {"limit": candidates, "filters": filters, "label": only, "with_payload": with_payload}
    dense, sparse = index.search_legs(name, list(asked.values()), words, **options)
    legs = {**dict(zip(asked, dense, strict=True)), Leg.SPARSE: sparse}
    if not feedback.chunks or request.like or request.unlike:
        return FoundLegs(legs, Leg.DENSE, vectors.dense)
    first = [each.id for each in fuse(legs, most=feedback.chunks)]
    like = [point.vector for point in index.retrieve(name, first)]
    towards = _towards(asked, like, feedback.weight)
    if labels.likely is None or labels.count([each.id for each in dense[0]]) >= LIKELY_CANDIDATES:
        legs[Leg.FEEDBACK] = index.search(name, towards, **options)
        return FoundLegs(legs, Leg.FEEDBACK, towards)
    labelled = (labels.likely, LIKELY_CANDIDATES)
    legs[Leg.FEEDBACK], likely = index.search_beside(name, towards, labelled=labelled, **options)
    return FoundLegs(legs, Leg.FEEDBACK, towards, likely)


def load_payloads(index: SearchedIndex, name: str, points: Sequence[ScoredPoint]) -> list[ScoredPoint]:
    """Those that are still there."""
    payloads = index.payloads(name, [each.id for each in points])
    return [replace(each, payload=payloads[each.id]) for each in points if each.id in payloads]


def _likely(
    ask: Callable[..., list[ScoredPoint]], labels: LabelChoice, found: Sequence[ScoredPoint]
) -> list[ScoredPoint]:
    """Not where as many of the value were found anyway: they come before all others of it."""
    if labels.likely is None or labels.count([each.id for each in found]) >= LIKELY_CANDIDATES:
        return []
    return ask(limit=LIKELY_CANDIDATES, label=labels.likely)


def _joined(found: Sequence[ScoredPoint], likely: Sequence[ScoredPoint]) -> list[ScoredPoint]:
    known = {point.id for point in found}
    return [*found, *(point for point in likely if point.id not in known)]


def _towards(asked: Mapping[Leg, Sequence[float]], like: Sequence[Sequence[float]], weight: float) -> Sequence[float]:
    """Between the query, by all its vectors, and what it is to be like: a unit vector."""
    vectors = np.asarray(list(asked.values()), dtype=np.float64)
    query = np.average(vectors, axis=0, weights=[WEIGHTS[leg] for leg in asked])
    query /= max(float(np.linalg.norm(query)), _SHORTEST)
    moved = _add_means(query, (weight, like))
    return (moved / max(float(np.linalg.norm(moved)), _SHORTEST)).tolist()


def move_vector(
    vector: Sequence[float], *, like: Sequence[Sequence[float]], unlike: Sequence[Sequence[float]]
) -> list[float]:
    """Rocchio: towards the mean of what is liked, away from the mean of what is not; a unit vector again."""
    moved = _add_means(np.asarray(vector, dtype=np.float64), (LIKE_WEIGHT, like), (-UNLIKE_WEIGHT, unlike))
    length = float(np.linalg.norm(moved))
    if length < _SHORTEST:
        raise InputError("What is liked and unliked leaves nothing of the query to search with: take one back.")
    return (moved / length).tolist()


def _add_means(vector: np.ndarray, *weighted: tuple[float, Sequence[Sequence[float]]]) -> np.ndarray:
    """Rocchio's sum: the vector and the weighted mean of each of the others that has any."""
    for weight, others in weighted:
        if others:
            vector = vector + weight * np.mean(np.asarray(others, dtype=np.float64), axis=0)
    return vector


def _moved_vectors(index: SearchedIndex, name: str, request: SearchRequest, vectors: QueryVectors) -> QueryVectors:
    """Raises InputError when the collection has no such chunk."""
    if not request.like and not request.unlike:
        return vectors
    found: dict[str, Point] = {
        point.id: point for point in index.retrieve(name, [*request.like, *request.unlike]) if is_own(point.payload)
    }
    for chunk_id in (*request.like, *request.unlike):
        if chunk_id not in found:
            raise InputError(f"The collection {request.collection!r} has no chunk {chunk_id}, to be like or unlike.")
    like, unlike = ([found[each].vector for each in dict.fromkeys(ids)] for ids in (request.like, request.unlike))
    return QueryVectors(*(move_vector(each, like=like, unlike=unlike) if len(each) else each for each in vectors))


def is_own(payload: Mapping[str, object]) -> bool:
    """Whether a point is a chunk of ours."""
    metadata = payload.get("metadata")
    return "page_content" in payload and isinstance(metadata, Mapping) and metadata.keys() >= KEYS_OF_EVERY_CHUNK
