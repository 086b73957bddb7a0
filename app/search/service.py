"""The search service: one query under one instruction, embedded, retrieved, highlighted. No chat model takes part."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np

from app.errors import DamagedIndexError, EmbedderUnavailableError, EngineFaultError, InputError, NotFoundError
from app.ports.catalog import SearchedCatalog
from app.ports.observer import SILENT, Observer
from app.ports.parts import Embedder, SearchedIndex, Soundness, Unwatched
from app.ports.rerank import Reranker
from app.search.calibration import MatchCalibration, best_match
from app.search.exclusions import ExclusionRanker, exclude_negated, excluded_values, told_exclusions
from app.search.fusion import WEIGHTS_AFTER_FEEDBACK, rank_in_legs
from app.search.gircse_reranker import GircseReranker
from app.search.grouping import select
from app.search.highlights import Highlighter
from app.search.highlights_bm25 import highlight_by_bm25
from app.search.hits import document_id_of, hits_of, on_page_of_sentence, own_points, told_damage
from app.search.joined_collections import Searched, explained, searched
from app.search.joined_indexes import JoinedIndexes
from app.search.query_language import unread_language
from app.search.request_checks import check_query, check_request, check_token_bias, check_value
from app.search.reranking import Candidate, Reranked, rerank
from app.search.retrieval import (
    LabelChoice,
    QueryVectors,
    Retrieved,
    find_candidates,
    find_legs,
    load_payloads,
    wanted_points,
)
from app.search.steering import steer
from app.search.text_reranking import rerank_texts
from app.search.value_distributions import QUERY_TEMPERATURE
from app.search.value_labels import ValueLabels
from app.search.value_ranking import rank_by_values
from app.search.value_reader import ValueReader
from app.search.value_search import ValueSearch
from app.types.documents import Collection, ScoredPoint, require_text
from app.types.search import (
    Hit,
    Leg,
    SearchMode,
    SearchRequest,
    SearchResult,
)
from app.types.values import LensValue, ValueReading, ValueSummary
from embedder.lru import LRUCache
from embedder.refinement import Refinement

RERANK_CANDIDATES = 20
KEPT_QUERIES = 64  # at 20 steps a tenth of a megabyte each

_READINGS = 8  # at a time, beside their searches; further ones wait

_log = logging.getLogger(__name__)
_NOTHING = Refinement(text="", instruction="", vector=np.empty(0))


class SearchService:
    def __init__(
        self,
        catalog: SearchedCatalog,
        index: SearchedIndex,
        embedder: Embedder,
        *,
        reranker: Reranker | None = None,
        rerank_candidates: int = RERANK_CANDIDATES,
        soundness: Soundness | None = None,
        observer: Observer = SILENT,
    ) -> None:
        """Without `reranker` second looks are the embedder's own. `rerank_candidates`: of an instructed hybrid search
        that does not say how many."""
        self._observer = observer
        self._soundness = soundness or Unwatched()
        self._rerank_candidates = rerank_candidates
        self._reranker = reranker or GircseReranker(embedder, observer=observer)
        self._catalog = catalog
        self._index: SearchedIndex = JoinedIndexes(index)
        self._embedder = embedder
        self._highlighter = Highlighter(embedder)
        self._values = ValueReader(embedder)
        self._exclusions = ExclusionRanker(self._index, self._values)
        self._value_search = ValueSearch(catalog, self._index, self._values, deleted_among=self._deleted_among)
        self._calibration = MatchCalibration(self._index, embedder)
        self._readings = ThreadPoolExecutor(_READINGS, thread_name_prefix="query-reading")  # starts none until then
        self._queries: LRUCache[tuple[object, ...], Refinement] = LRUCache(KEPT_QUERIES)

    def search(self, request: SearchRequest, *, highlight: bool = True) -> SearchResult:
        """The nearest chunks. With `highlight` each hit carries the sentence by which it was found as `why`, and how
        well it answers as `match`.

        By words alone the model takes no part in the ranking: there is no refinement, and `steps` is 0.
        """
        timings_ms: dict[str, float] = {}
        with self._timed(timings_ms, "total"):
            check_request(request)
            check_value(request)
            asked, negated = request.query, exclude_negated(request)
            request = negated.request
            place = self._place(request)
            collection = place.collection
            _check_refinement(self._embedder, request.instruction, request.steps, request.token_bias)
            request = self._with_rerank(request, collection)
            reading, vectors = _read(_NOTHING), QueryVectors()
            if request.mode is not SearchMode.SPARSE:
                with self._timed(timings_ms, "embed"):
                    reading, vectors = self._embed(request, collection)
            own_value = self._read_query(request, collection, timings_ms)
            with self._timed(timings_ms, "index"):
                place, labels, found = self._ask_index(place, request, vectors, own_value)
            collection = place.collection
            candidates, summary = self._candidates(found, request, collection, own_value, labels, timings_ms)
            ranked = self._rerank(candidates, request, timings_ms)
            kept = self._exclusions.push_down(ranked.candidates, request, collection)
            query = reading.result()
        unread = None if request.mode is SearchMode.SPARSE else unread_language(asked, self._embedder.info.name)
        hits = hits_of(select(kept, request, lambda pool: self._vectors_of(pool, collection)), place.names)
        result = SearchResult(
            query=asked,
            instruction=query.instruction,
            steps=query.step_count,
            collection=collection.name,
            hits=hits,
            refinement=query.steps,
            timings_ms=timings_ms,
            mode=request.mode,
            values=summary,
            notes=(*place.notes, *ranked.notes, *([str(unread)] if unread else []), *told_damage(hits)),
            unread=unread,
            exclusions=told_exclusions(negated, kept, summary),
            searched=request.query,
            read_text=query.read_text,
            vector=found.vector,
            document_instruction=collection.document_instruction,
            has_plain_vectors=collection.has_plain_vectors,
            is_ranked_by_refinement=self._is_ranked_by_refinement(request, collection),
            among=request.among,
        )
        return self.highlight(result) if highlight else result

    def _without_deleted(self, points: Sequence[ScoredPoint]) -> Sequence[ScoredPoint]:
        """Until a worker takes the points of what is being deleted away."""
        deleted = self._deleted_among({document_id_of(each) for each in points})
        return [each for each in points if document_id_of(each) not in deleted]

    def _deleted_among(self, document_ids: Iterable[str]) -> set[str]:
        return self._catalog.deleted_among(document_ids)

    def _read_query(
        self, request: SearchRequest, collection: Collection, timings_ms: dict[str, float]
    ) -> ValueLabels | None:
        if not request.values:
            return None
        with self._timed(timings_ms, "values"):
            # As documents are embedded, which a hybrid search asks with, too: it is remembered.
            vector = self._document_vector(request.query, collection)
            return self._values.label(
                np.asarray(vector, dtype=np.float32)[None],
                [request.query],
                request.values,
                collection=collection,
                temperature=QUERY_TEMPERATURE,
            )

    def _candidates(
        self,
        found: Retrieved,
        request: SearchRequest,
        collection: Collection,
        query: ValueLabels | None,
        labels: LabelChoice,
        timings_ms: dict[str, float],
    ) -> tuple[Sequence[Candidate], ValueSummary | None]:
        """The passages, ranked under the values of the request where it has some, and how many have which."""
        if query is None:
            own = self._without_deleted(own_points(found.points))
            return [Candidate(each) for each in rank_in_legs(own, found.legs)], None
        started = timings_ms.get("values", 0.0)
        with self._timed(timings_ms, "values"):
            read = self._value_search.read(found.points, query, request, collection, field=labels.field)
            without = set(excluded_values(request).values())
            ranked = rank_by_values(read.points, read.readings, only=request.value, without=without)
            kept = self._first_present(ranked, wanted_points(request), collection)
            points = rank_in_legs([point for point, _ in kept], found.legs)
        timings_ms["values"] = round(timings_ms["values"] + started, 3)
        return [Candidate(each, value) for each, (_, value) in zip(points, kept, strict=True)], read.summary

    def _first_present(
        self, ranked: Iterator[tuple[ScoredPoint, ValueReading]], most: int, collection: Collection
    ) -> list[tuple[ScoredPoint, ValueReading]]:
        """With what they hold, which is not fetched of the others."""
        kept: list[tuple[ScoredPoint, ValueReading]] = []
        while part := list(islice(ranked, most - len(kept))):
            loaded = load_payloads(self._index, collection.active_index, [point for point, _ in part])
            readings = {point.id: value for point, value in part}
            kept += [(each, readings[each.id]) for each in self._without_deleted(own_points(loaded))]
        return kept

    def _vectors_of(self, pool: Sequence[Candidate], collection: Collection) -> Mapping[str, Sequence[float]]:
        ids = [each.ranked.point.id for each in pool]
        return {point.id: point.vector for point in self._index.retrieve(collection.active_index, ids)}

    def _with_rerank(self, request: SearchRequest, collection: Collection) -> SearchRequest:
        """Vectors of the base model do not know the instruction, so that candidates are looked at again under it."""
        if request.rerank is not None:
            return request
        wants = request.mode is SearchMode.HYBRID and self._instruction(request) and collection.has_plain_vectors
        return replace(request, rerank=self._rerank_candidates if wants else 0)

    def _rerank(
        self, candidates: Sequence[Candidate], request: SearchRequest, timings_ms: dict[str, float]
    ) -> Reranked:
        if not request.rerank:
            return Reranked(candidates)
        with self._timed(timings_ms, "rerank"):
            return rerank(self._reranker, candidates, request, instruction=self._instruction(request))

    def _instruction(self, request: SearchRequest) -> str:
        default = self._embedder.info.default_query_instruction
        return default if request.instruction is None else request.instruction

    def highlight(self, result: SearchResult) -> SearchResult:
        """The result of a search without `highlight`, or one with only some of its hits, whose hits carry `why` and
        `match`.

        Neither the query nor sentences that were seen lately are embedded again.
        """
        spent_ms: dict[str, float] = {}
        with self._timed(spent_ms, "explain"):
            hits = highlight_by_bm25(result.hits, result.searched or result.query, mode=result.mode)
            if result.mode is not SearchMode.SPARSE:
                hits = self._highlighter.highlight(
                    hits,
                    result.vector,
                    document_instruction=result.document_instruction,
                    is_plain=result.has_plain_vectors,
                    mode=result.mode,
                )
            hits = self._with_matches(tuple(map(on_page_of_sentence, hits)), result)
        total = round(result.timings_ms.get("total", 0.0) + spent_ms["explain"], 3)
        match = best_match(hit.match for hit in hits)
        return replace(result, hits=hits, match=match, timings_ms={**result.timings_ms, **spent_ms, "total": total})

    def _with_matches(self, hits: tuple[Hit, ...], result: SearchResult) -> tuple[Hit, ...]:
        """How well each hit answers, by the query embedded as the documents are. Not under an instruction: texts about
        one place need not answer each other."""
        if result.instruction:
            return hits
        try:
            collection = self._place(result).collection
            query = result.searched or result.query
            vector = self._document_vector(query, collection)
            passages = {hit.chunk.id: hit.chunk.text for hit in hits}
            found = self._calibration.matches(query, vector.tolist(), passages, collection)
        except NotFoundError:
            return hits  # deleted meanwhile, as the hits are
        except EmbedderUnavailableError:
            if result.mode is not SearchMode.SPARSE:
                raise
            return hits  # words are found without the model, too
        return tuple(replace(hit, match=found.get(hit.chunk.id)) for hit in hits)

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """What the model makes of a query, without a search. The last ones are remembered."""
        key = (text, instruction, steps, tuple((token_bias or {}).items()))
        found = self._queries.get(key)
        self._observer.looked_up("queries", is_hit=found is not None)
        if found is None:
            found = refine_query(self._embedder, text, instruction=instruction, steps=steps, token_bias=token_bias)
            self._queries.keep({key: found})
        return found

    def rerank_texts(
        self, query: str, texts: Sequence[str], *, instruction: str | None = None, values: Sequence[LensValue] = ()
    ) -> list[float]:
        """How well texts of the caller's own answer a query, in their order: higher is better."""
        check_query(query)
        if instruction is not None:
            require_text(instruction, name="instruction")
        with self._observer.stage("rerank"):
            return rerank_texts(self._embedder, self._reranker, query, texts, instruction=instruction, values=values)

    @contextmanager
    def _timed(self, timings_ms: dict[str, float], stage: str) -> Iterator[None]:
        started = perf_counter()
        with self._observer.stage(f"search.{stage}"):
            yield
        timings_ms[stage] = round((perf_counter() - started) * 1000, 3)

    def _embed(self, request: SearchRequest, collection: Collection) -> tuple[Future[Refinement], QueryVectors]:
        """What the model makes of the query, and by which vectors it is searched for.

        Where the soft tokens have no part in the ranking they are made while the index is searched.
        """
        words = [(bias, self._document_vector(word, collection)) for word, bias in request.token_bias.items()]
        read = partial(self.refine, request.query, instruction=request.instruction, steps=request.steps)
        if self._is_ranked_by_refinement(request, collection):
            found = read()
            refined = steer(found.vector, words)
            is_plain = not found.steps and not found.instruction  # without soft tokens it may read the instruction yet
            if request.mode is not SearchMode.HYBRID or not collection.has_plain_vectors or is_plain:
                return _read(found), QueryVectors(refined)
            return _read(found), QueryVectors(refined, steer(self._plain(request.query).vector, words))
        plain = self._plain(request.query)
        steps = self._embedder.info.default_query_steps if request.steps is None else request.steps
        reading = self._readings.submit(copy_context().run, read) if steps else _read(plain)
        return reading, QueryVectors(steer(plain.vector, words))

    def _plain(self, query: str) -> Refinement:
        return self.refine(query, instruction="", steps=0)

    def _is_ranked_by_refinement(self, request: SearchRequest, collection: Collection) -> bool:
        """Soft tokens that no instruction steers find less than the base model does, where a collection has vectors of
        that (docs/evaluation/hybrid.md)."""
        is_steered = bool(self._instruction(request))
        return is_steered or request.mode is not SearchMode.HYBRID or not collection.has_plain_vectors

    def _document_vector(self, text: str, collection: Collection) -> np.ndarray:
        """Of a text, as documents of the collection are embedded. It is remembered."""
        return self.refine(text, instruction=collection.document_instruction, steps=collection.document_steps).vector

    def _place(self, asked: SearchRequest | SearchResult) -> Searched:
        return searched(self._catalog, self._embedder, self._soundness, asked)

    def _ask_index(
        self, place: Searched, request: SearchRequest, vectors: QueryVectors, own_value: ValueLabels | None
    ) -> tuple[Searched, LabelChoice, Retrieved]:
        """An index that was dropped since the catalog named it has a successor, by a reindex for instance."""
        while True:
            name = place.collection.active_index
            try:
                labels = self._value_search.choose(request, place.collection, own_value)
                weights = self._catalog.leg_weights(place.collection.name) or WEIGHTS_AFTER_FEEDBACK
                found = find_candidates(self._index, name, request, vectors, labels=labels, weights=weights)
                return place, labels, found
            except EngineFaultError as fault:
                raise explained(place, self._soundness, fault) from fault
            except NotFoundError:
                place = self._place(request)
                if place.collection.active_index == name:
                    raise DamagedIndexError(place.collection.name, "the vector index does not have it") from None

    def find_legs(self, request: SearchRequest) -> Mapping[Leg, Sequence[ScoredPoint]]:
        """What each leg of a hybrid search finds, before they are fused."""
        request = exclude_negated(request).request
        collection = self._place(request).collection
        return find_legs(self._index, collection.active_index, request, self._embed(request, collection)[1]).legs


def _read(found: Refinement) -> Future[Refinement]:
    """One that is there already."""
    reading: Future[Refinement] = Future()
    reading.set_result(found)
    return reading


def refine_query(
    embedder: Embedder,
    text: str,
    *,
    instruction: str | None = None,
    steps: int | None = None,
    token_bias: Mapping[str, float] | None = None,
) -> Refinement:
    """What the model makes of a query, without a search."""
    check_query(text)
    _check_refinement(embedder, instruction, steps, token_bias or {})
    return embedder.embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias or None)


def _check_refinement(
    embedder: Embedder, instruction: str | None, steps: int | None, token_bias: Mapping[str, float]
) -> None:
    if instruction is not None:
        require_text(instruction, name="instruction")
    least, most = embedder.info.min_steps, embedder.info.max_steps
    if steps is not None and not least <= steps <= most:
        raise InputError(f"steps must be {least} to {most} with the model {embedder.info.name}, not {steps}.")
    if steps == 0 and instruction:
        raise InputError("0 steps give the vector of the base model, which follows no instruction. Take at least one.")
    check_token_bias(token_bias)
