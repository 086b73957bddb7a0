"""Completes ingested documents and records matches of standing searches among their new chunks in one transaction.

A chunk is new if the catalog does not have it, even if the index does: a worker killed in between has reported nothing.
Chunk vectors come from the index; only new and changed searches are embedded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from app.errors import InputError, NotFoundError, StandingChangedError
from app.ports.ledger import IngestedDocument
from app.ports.parts import Embedder, VectorIndex
from app.search.calibration import MatchCalibration, Scale, measure_scale, off_topic_wordings
from app.search.exclusions import exclude_negated
from app.search.instructed_matches import InstructedMatches
from app.search.questions import request_of
from app.search.request_checks import check_request, check_value
from app.search.standing import MatchableSearch, StandingSet
from app.search.steering import steer
from app.search.value_reader import ValueReader
from app.types.access import may_see
from app.types.documents import Collection, Job
from app.types.search import SearchMode, SearchRequest
from app.types.standing import PreparedSearch, StandingMatch, Told
from embedder.lru import LRUCache

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

log = logging.getLogger(__name__)

_PAGE = 512  # chunks matched at a time
_KEPT_COLLECTIONS = 64
_COUNTED_AFTER = 16  # count the index again after growth by 1/16, since counting is a request to the engine
MAX_INSTRUCTIONS = 5  # of one owner in one collection
_GROWTH = 2  # measure the scale again when the index has grown by this factor
_OFF_TOPIC_UNDER_INSTRUCTION = 32  # off-topic texts; few, because embedding under an instruction is expensive


@dataclass
class _Standing:
    searches: StandingSet
    points: int  # size of the index when the scales were measured
    uncounted: int = 0  # new chunks since the index was last counted


class StandingCompletion:
    """A `Completion` that also records matches of standing searches. Thread-safe."""

    def __init__(self, catalog: SqlCatalog, index: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = index
        self._preparation = StandingPreparation(catalog, index, embedder)
        self._reader = ValueReader(embedder)
        self._instructed = InstructedMatches(index, embedder)
        self._kept: LRUCache[str, _Standing] = LRUCache(_KEPT_COLLECTIONS)
        self._lock = threading.Lock()

    def __call__(self, collection: Collection, done: Mapping[Job, IngestedDocument]) -> set[str]:
        while True:
            standing = self._standing(collection)
            matches = self._matches(collection, standing, done) if standing.searches else ()
            try:
                return self._catalog.complete_many(done, told=Told(standing.version, matches))
            except StandingChangedError as change:
                log.debug("Matching again: %s", change)

    def _matches(
        self, collection: Collection, standing: StandingSet, done: Mapping[Job, IngestedDocument]
    ) -> list[StandingMatch]:
        visible = self._visible(collection, standing)
        found: list[StandingMatch] = []
        ids = self._new_chunks(collection, done)
        while page := list(islice(ids, _PAGE)):
            self._note_new(collection.active_index, len(page))
            points = self._index.retrieve(collection.active_index, page)
            found += standing.find(points, visible=visible)
        return found

    def _new_chunks(self, collection: Collection, done: Mapping[Job, IngestedDocument]) -> Iterator[str]:
        known = self._catalog.standing.known_chunks(collection.active_index, [job.document_id for job in done])
        for document in done.values():
            for chunk in document.chunks:
                if chunk.id not in known:
                    yield chunk.id

    def _visible(self, collection: Collection, standing: StandingSet) -> set[str]:
        """Ids of the searches whose owners may read the collection now."""
        users = {user.name: user for user in self._catalog.access.users()}
        return {each.id for each in standing.searches if may_see(users, each.owner, collection.name)}

    def _standing(self, collection: Collection) -> StandingSet:
        name = collection.active_index
        version = self._catalog.standing.version(collection.name)
        if not version:
            return StandingSet(0, (), collection, self._reader, self._instructed)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.searches.version != version or self._has_grown(name, kept):
                version, prepared = self._catalog.standing.in_collection(collection.name)
                points = self._index.count(name)
                asked = self._preparation.prepare(prepared, collection, points)
                kept = _Standing(StandingSet(version, asked, collection, self._reader, self._instructed), points)
                self._kept.keep({name: kept})
            return kept.searches

    def _has_grown(self, name: str, kept: _Standing) -> bool:
        if kept.uncounted < max(1, kept.points // _COUNTED_AFTER):
            return False
        kept.uncounted = 0
        return self._index.count(name) >= _GROWTH * max(1, kept.points)

    def _note_new(self, name: str, count: int) -> None:
        with self._lock:
            if kept := self._kept.get(name):
                kept.uncounted += count


class StandingPreparation:
    """Embeds new and changed searches, measures the scale of their `match`, and stores both in the catalog."""

    def __init__(self, catalog: SqlCatalog, index: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._calibration = MatchCalibration(index, embedder)
        self._off_topic: LRUCache[tuple[object, ...], np.ndarray] = LRUCache(16)

    def prepare(self, standing: Sequence[PreparedSearch], collection: Collection, points: int) -> list[MatchableSearch]:
        """The searches that can run. For the others the reason is stored in the catalog."""
        scales: dict[tuple[object, ...], Scale] = {}
        changes: list[tuple[PreparedSearch, PreparedSearch]] = []
        requests: list[tuple[PreparedSearch, SearchRequest]] = []
        instructions: dict[str, set[str]] = {}  # by owner
        for each in standing:
            try:
                request = self.checked(each, collection)
                _check_instructions(request, instructions.setdefault(each.owner, set()))
                requests.append((each, request))
            except (InputError, NotFoundError) as error:
                if each.error != error.lasting_text:
                    changes.append((each, replace(each, error=error.lasting_text, space="")))
        vectors = self._plain_vectors(requests, collection)
        prepared = [
            (request, self._prepared(each, request, collection, points, scales, vectors)) for each, request in requests
        ]
        changes += [(old, new) for (old, _), (_, new) in zip(requests, prepared, strict=True) if new != old]
        kept = self._catalog.standing.prepare(changes) if changes else {}
        return [_asked(request, _of_space(new, kept.get(new.id))) for request, new in prepared]

    def checked(self, search: PreparedSearch, collection: Collection) -> SearchRequest:
        """The request with its lens resolved and negated phrases of the query turned into exclusions.

        Raises InputError and NotFoundError if it cannot run as a standing search.
        """
        request = replace(request_of(search.request, self._catalog), collection=collection.name)
        check_watchable(request)
        return exclude_negated(request).request

    def _prepared(
        self,
        search: PreparedSearch,
        request: SearchRequest,
        collection: Collection,
        points: int,
        scales: dict[tuple[object, ...], Scale],
        vectors: Mapping[str, Sequence[float]],
    ) -> PreparedSearch:
        if request.mode is SearchMode.SPARSE:
            return replace(search, space=_space(request, collection), vector=(), error=None)
        space = _space(request, collection)
        if search.space != space:
            vector = tuple(self._vector(request, collection, vectors))
            search = replace(search, space=space, vector=vector, points=0, error=None)
        if search.points == 0 or points >= _GROWTH * search.points:
            scale = self._scale(request, collection, scales)
            search = replace(search, median=scale.median, deviation=scale.deviation, points=max(1, points))
        return search

    def _plain_vectors(
        self, requests: Sequence[tuple[PreparedSearch, SearchRequest]], collection: Collection
    ) -> dict[str, Sequence[float]]:
        """Vectors by text of the new queries without an instruction, embedded in one batch."""
        new = [
            request.query
            for search, request in requests
            if request.mode is not SearchMode.SPARSE
            and not request.instruction
            and search.space != _space(request, collection)
        ]
        queries = list(dict.fromkeys(new))
        return dict(zip(queries, self._as_documents(queries, collection), strict=True)) if queries else {}

    def _as_documents(self, texts: Sequence[str], collection: Collection) -> Sequence[Sequence[float]]:
        return self._embedder.embed_documents(
            list(texts), instruction=collection.document_instruction, steps=collection.document_steps
        )

    def _vector(
        self, request: SearchRequest, collection: Collection, vectors: Mapping[str, Sequence[float]]
    ) -> list[float]:
        if request.instruction:
            found = self._embedder.embed_query(request.query, instruction=request.instruction, steps=request.steps)
            vector: Sequence[float] = found.vector.tolist()
        else:
            vector = vectors[request.query]
        biases = request.token_bias
        words = list(zip(biases.values(), self._as_documents(list(biases), collection), strict=True)) if biases else []
        # In stored precision, so that a worker that computed it and one that loaded it decide the same.
        return np.asarray(steer(vector, words) if words else vector, dtype=np.float32).tolist()

    def _scale(self, request: SearchRequest, collection: Collection, known: dict[tuple[object, ...], Scale]) -> Scale:
        key = (request.instruction, request.steps) if request.instruction else ()
        if key not in known:
            known[key] = measure_scale(
                self._index, collection.active_index, self._off_topic_vectors(request, collection)
            )
        return known[key]

    def _off_topic_vectors(self, request: SearchRequest, collection: Collection) -> np.ndarray:
        if not request.instruction:
            return self._calibration.off_topic_vectors(collection)
        key = (collection.fingerprint, request.instruction, request.steps)
        found = self._off_topic.get(key)
        if found is None:
            steps = self._embedder.info.default_query_steps if request.steps is None else request.steps
            wordings = off_topic_wordings(_OFF_TOPIC_UNDER_INSTRUCTION)
            # In one batch, which takes a twentieth of the time of single queries and gives the same vectors.
            found = np.asarray(self._embedder.embed_documents(wordings, instruction=request.instruction, steps=steps))
            self._off_topic.keep({key: found})
        return found


def _of_space(prepared: PreparedSearch, kept: PreparedSearch | None) -> PreparedSearch:
    """The stored version if it has the same vector space as `prepared`, otherwise `prepared`.

    They differ if the search was changed meanwhile; the catalog then rejects the completion.
    """
    return kept if kept is not None and kept.space == prepared.space else prepared


def _asked(request: SearchRequest, prepared: PreparedSearch) -> MatchableSearch:
    scale = Scale(prepared.median, prepared.deviation)
    vector = np.asarray(prepared.vector, dtype=np.float64)
    return MatchableSearch(prepared.id, prepared.owner, request, prepared.strength, vector, scale)


def check_watchable(request: SearchRequest) -> None:
    """Raise InputError if the search cannot be evaluated on single passages."""
    check_request(request)
    check_value(request)
    if request.like or request.unlike:
        raise InputError(
            "A search with “more like this” cannot be a standing search, since its examples may be deleted. Save it "
            "without them."
        )


def _check_instructions(request: SearchRequest, own: set[str]) -> None:
    """Adds the instruction to the owner's. Raises InputError beyond the limit: each new passage is embedded anew under
    each of them, which would make everybody's ingestion slow.
    """
    if not request.instruction or request.mode is SearchMode.SPARSE:
        return
    if len(own | {request.instruction}) > MAX_INSTRUCTIONS:
        raise InputError(
            f"You have standing searches with {len(own)} other instructions in this collection, the maximum. Stop one "
            "of them, or watch without an instruction."
        )
    own.add(request.instruction)


def _space(request: SearchRequest, collection: Collection) -> str:
    """A digest of everything that determines the vector of a search."""
    parts = (
        collection.fingerprint,
        collection.document_instruction,
        collection.document_steps,
        request.query,
        request.instruction or "",
        request.steps,
        request.mode.value,
        sorted(request.token_bias.items()),
    )
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()
