"""The search service: embeds a query under an instruction, retrieves, ranks, highlights. Uses no chat model."""

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

from app.errors import (
    MISSING_INDEX,
    DamagedIndexError,
    EmbedderUnavailableError,
    EngineFaultError,
    InputError,
    NotFoundError,
)
from app.ports.catalog import SearchedCatalog
from app.ports.observer import SILENT, Observer
from app.ports.parts import AlwaysSound, Embedder, SearchedIndex, Soundness
from app.ports.rerank import Reranker
from app.search.calibration import MatchCalibration, best_match
from app.search.exclusions import ExclusionRanker, exclude_negated, excluded_values, reported_exclusions
from app.search.fusion import rank_in_legs
from app.search.gircse_reranker import EmbedderReranker
from app.search.grouping import select
from app.search.highlights import Highlighter
from app.search.highlights_bm25 import highlight_by_bm25
from app.search.hits import damage_notes, document_id_of, hits_of, on_page_of_sentence, points_by_gircse
from app.search.instructed_matches import InstructedMatches
from app.search.joined_collections import ResolvedCollections, mapped_fault, resolve_collections
from app.search.joined_indexes import JoinedIndexes
from app.search.request_checks import check_instruction, check_query, check_request, check_token_bias, check_value
from app.search.reranking import Candidate, Reranked, rerank
from app.search.retrieval import (
    LabelChoice,
    LegWeights,
    QueryVectors,
    Retrieved,
    changes_similarity,
    find_candidates,
    find_legs,
    load_payloads,
    retrieved_points,
    wanted_points,
)
from app.search.steering import steer
from app.search.text_reranking import rerank_texts
from app.search.value_distributions import QUERY_TEMPERATURE
from app.search.value_labels import ValueLabels
from app.search.value_ranking import rank_by_values
from app.search.value_reader import ValueReader
from app.search.value_search import ValueSearch
from app.search.weighting import Weighting
from app.types.documents import Collection, ScoredPoint
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
# Multiples of the usual number of points to retrieve, tried in turn until enough hits remain: one book may have the
# best hundred passages, of which `per_document` keeps three. A search for a rare value does not go so deep, because it
# would classify every point; with a lens index it finds them at once.
DEPTHS = (1, 5, 25)
VALUE_DEPTHS = 2
KEPT_QUERIES = 64  # about 0.1 MB each at 20 steps

_READINGS = 8  # refinements computed at a time while the index is searched; further ones wait

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
        """reranker: by default the embedder re-ranks itself. rerank_candidates: number of candidates to re-rank in a
        hybrid search with an instruction, unless its request sets `rerank`."""
        self._observer = observer
        self._soundness = soundness or AlwaysSound()
        self._rerank_candidates = rerank_candidates
        self._reranker = reranker or EmbedderReranker(embedder, observer=observer)
        self._catalog = catalog
        self._index: SearchedIndex = JoinedIndexes(index)
        self._embedder = embedder
        self._highlighter = Highlighter(embedder)
        self._values = ValueReader(embedder)
        self._exclusions = ExclusionRanker(self._index, self._values)
        self._value_search = ValueSearch(
            catalog.lens_indexes, self._index, self._values, deleted_among=self._deleted_among
        )
        self._calibration = MatchCalibration(self._index, embedder)
        self._instructed = InstructedMatches(self._index, embedder, self._reranker)
        # Starts its threads on demand.
        self._readings = ThreadPoolExecutor(_READINGS, thread_name_prefix="query-reading")
        self._queries: LRUCache[tuple[object, ...], Refinement] = LRUCache(KEPT_QUERIES)

    def search(self, request: SearchRequest, *, highlight: bool = True) -> SearchResult:
        """Returns the best chunks. With `highlight`, hits carry their best sentence (`why`) and a grade (`match`).

        In mode sparse, words alone decide: the result has no refinement, and `steps` is 0.
        """
        timings_ms: dict[str, float] = {}
        with self._timed(timings_ms, "total"):
            check_request(request)
            check_value(request)
            query_text, negated = request.query, exclude_negated(request)
            request = negated.request
            resolved = self._resolve(request)
            collection = resolved.collection
            _check_refinement(self._embedder, request.instruction, request.steps, request.token_bias)
            reading, vectors = self._embed(request, collection, timings_ms)
            default_rerank = self._default_rerank(request, vectors)
            if request.rerank is None:
                request = replace(request, rerank=default_rerank)
            weighting = self._weighting(request, query_text, collection)
            query_label = self._label_query(request, collection, timings_ms)
            for depth in DEPTHS[:VALUE_DEPTHS] if request.values else DEPTHS:
                with self._timed(timings_ms, "index"):
                    resolved, labels, found = self._retrieve(
                        resolved, request, vectors, query_label, weighting.weights, depth
                    )
                collection = resolved.collection
                candidates, summary = self._candidates(
                    found, request, collection, query_label, labels, timings_ms, depth
                )
                ranked = self._rerank(candidates, request, timings_ms)
                kept = self._exclusions.demote(ranked.candidates, request, collection)
                chosen = select(kept, request, partial(self._vectors_of, collection=collection))
                if len(chosen) >= request.limit or len(found.points) < retrieved_points(request, depth):
                    break
            query = reading.result()
        unread = weighting.unread(chosen, found.legs, is_by_value=summary is not None)
        hits = hits_of(chosen, resolved.names)
        result = SearchResult(
            query=query_text,
            instruction=query.instruction,
            steps=query.step_count,
            collection=collection.name,
            hits=hits,
            refinement=query.steps,
            timings_ms=timings_ms,
            mode=request.mode,
            values=summary,
            notes=(*resolved.notes, *ranked.notes, *([str(unread)] if unread else []), *damage_notes(hits)),
            unread=unread,
            default_rerank=default_rerank,
            exclusions=reported_exclusions(negated, kept, summary),
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
        """Drops points of deleted documents, which stay in the index until a worker removes them."""
        deleted = self._deleted_among({document_id_of(point) for point in points})
        return [point for point in points if document_id_of(point) not in deleted]

    def _deleted_among(self, document_ids: Iterable[str]) -> set[str]:
        return self._catalog.deleted_among(document_ids)

    def _label_query(
        self, request: SearchRequest, collection: Collection, timings_ms: dict[str, float]
    ) -> ValueLabels | None:
        """Classifies the query by the request's values; None if it has none."""
        if not request.values:
            return None
        with self._timed(timings_ms, "values"):
            # The query embedded like the documents: a hybrid search uses this vector, too, so it is cached.
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
        depth: int,
    ) -> tuple[Sequence[Candidate], ValueSummary | None]:
        """Makes candidates of the retrieved points. If the request has values, ranks by them and counts passages per
        value."""
        if query is None:
            own = self._without_deleted(points_by_gircse(found.points))
            return [Candidate(ranked) for ranked in rank_in_legs(own, found.legs)], None
        with self._timed(timings_ms, "values"):
            read = self._value_search.read(found.points, query, request, collection, field=labels.field)
            without = set(excluded_values(request).values())
            ranked = rank_by_values(read.points, read.readings, only=request.value, without=without)
            kept = self._first_present(ranked, depth * wanted_points(request), collection)
            points = rank_in_legs([point for point, _ in kept], found.legs)
        return [Candidate(point, value) for point, (_, value) in zip(points, kept, strict=True)], read.summary

    def _first_present(
        self, ranked: Iterator[tuple[ScoredPoint, ValueReading]], most: int, collection: Collection
    ) -> list[tuple[ScoredPoint, ValueReading]]:
        """The first `most` points that still exist, with payloads; payloads of the others are not fetched."""
        kept: list[tuple[ScoredPoint, ValueReading]] = []
        while part := list(islice(ranked, most - len(kept))):
            loaded = load_payloads(self._index, collection.active_index, [point for point, _ in part])
            readings = {point.id: value for point, value in part}
            kept += [(point, readings[point.id]) for point in self._without_deleted(points_by_gircse(loaded))]
        return kept

    def _vectors_of(self, pool: Sequence[Candidate], collection: Collection) -> Mapping[str, Sequence[float]]:
        ids = [candidate.ranked.point.id for candidate in pool]
        return {point.id: point.vector for point in self._index.retrieve(collection.active_index, ids)}

    def _default_rerank(self, request: SearchRequest, vectors: QueryVectors) -> int:
        """Number of candidates to re-rank if the request leaves it open.

        Base-model vectors ignore the instruction, so a hybrid search re-ranks candidates under an instruction that
        changes what is similar.
        """
        is_needed = bool(self._instruction(request)) and changes_similarity(vectors)
        return self._rerank_candidates if is_needed else 0

    def _weighting(self, request: SearchRequest, query: str, collection: Collection) -> Weighting:
        read = None if request.mode is SearchMode.SPARSE else self._embedder.info.language
        return Weighting.of(request, query, read=read, tuned=self._catalog.weights.applied(collection.name))

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
        """Adds `why` and `match` to the hits of a result, which may be a part of the search's hits.

        Uses cached vectors of the query and of recently embedded sentences.
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
        """Grades each hit by its cosine with the query: both under the instruction, or embedded like the documents."""
        query = result.searched or result.query
        passages = {hit.chunk.id: hit.chunk.text for hit in hits}
        try:
            collection = self._resolve(result).collection
            if result.instruction:
                found = self._instructed.matches(query, list(passages), collection, instruction=result.instruction)
            else:
                vector = self._document_vector(query, collection)
                found = self._calibration.matches(query, vector.tolist(), passages, collection)
        except NotFoundError:
            return hits  # the collection was deleted since
        except EmbedderUnavailableError:
            if result.mode is not SearchMode.SPARSE:
                raise
            return hits  # a word search works without the model
        return tuple(replace(hit, match=found.get(hit.chunk.id)) for hit in hits)

    def refine(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        """Embeds a query and returns its vector and soft tokens, without a search. Caches the last KEPT_QUERIES."""
        key = (text, instruction, steps, tuple((token_bias or {}).items()))
        refinement = self._queries.get(key)
        self._observer.looked_up("queries", is_hit=refinement is not None)
        if refinement is None:
            refinement = refine_query(self._embedder, text, instruction=instruction, steps=steps, token_bias=token_bias)
            self._queries.keep({key: refinement})
        return refinement

    def rerank_texts(
        self, query: str, texts: Sequence[str], *, instruction: str | None = None, values: Sequence[LensValue] = ()
    ) -> list[float]:
        """Scores texts that the caller sends by how well they answer a query, in their order; higher is better."""
        check_query(query)
        check_instruction(instruction)
        with self._observer.stage("rerank"):
            return rerank_texts(self._embedder, self._reranker, query, texts, instruction=instruction, values=values)

    @contextmanager
    def _timed(self, timings_ms: dict[str, float], stage: str) -> Iterator[None]:
        started = perf_counter()
        with self._observer.stage(f"search.{stage}"):
            yield
        spent_ms = (perf_counter() - started) * 1000
        timings_ms[stage] = round(timings_ms.get(stage, 0.0) + spent_ms, 3)

    def _embed(
        self, request: SearchRequest, collection: Collection, timings_ms: dict[str, float]
    ) -> tuple[Future[Refinement], QueryVectors]:
        """`_embed_query`; nothing in mode sparse."""
        if request.mode is SearchMode.SPARSE:
            return _completed(_NOTHING), QueryVectors()
        with self._timed(timings_ms, "embed"):
            return self._embed_query(request, collection)

    def _embed_query(self, request: SearchRequest, collection: Collection) -> tuple[Future[Refinement], QueryVectors]:
        """Returns the query's refinement, and the vectors to search with.

        If the ranking does not use the soft tokens, they are computed in the background while the index is searched.
        """
        words = [(bias, self._document_vector(word, collection)) for word, bias in request.token_bias.items()]
        refine = partial(self.refine, request.query, instruction=request.instruction, steps=request.steps)
        if self._is_ranked_by_refinement(request, collection):
            refinement = refine()
            refined = steer(refinement.vector, words)
            is_plain = not refinement.steps and not refinement.instruction  # 0 steps may still follow an instruction
            if request.mode is not SearchMode.HYBRID or not collection.has_plain_vectors or is_plain:
                return _completed(refinement), QueryVectors(refined)
            return _completed(refinement), QueryVectors(refined, steer(self._plain(request.query).vector, words))
        plain = self._plain(request.query)
        steps = self._embedder.info.default_query_steps if request.steps is None else request.steps
        reading = self._readings.submit(copy_context().run, refine) if steps else _completed(plain)
        return reading, QueryVectors(steer(plain.vector, words))

    def _plain(self, query: str) -> Refinement:
        return self.refine(query, instruction="", steps=0)

    def _is_ranked_by_refinement(self, request: SearchRequest, collection: Collection) -> bool:
        """Whether the search uses the refined vector. In a hybrid search without instruction, the base model finds more
        (docs/evaluation/hybrid.md), so it is used instead if the collection has base-model vectors."""
        is_steered = bool(self._instruction(request))
        return is_steered or request.mode is not SearchMode.HYBRID or not collection.has_plain_vectors

    def _document_vector(self, text: str, collection: Collection) -> np.ndarray:
        """Embeds a text like the collection's documents (same instruction and steps): (D,), cached."""
        return self.refine(text, instruction=collection.document_instruction, steps=collection.document_steps).vector

    def _resolve(self, search: SearchRequest | SearchResult) -> ResolvedCollections:
        return resolve_collections(self._catalog, self._embedder, self._soundness, search)

    def _retrieve(
        self,
        resolved: ResolvedCollections,
        request: SearchRequest,
        vectors: QueryVectors,
        query_label: ValueLabels | None,
        weights: LegWeights,
        depth: int,
    ) -> tuple[ResolvedCollections, LabelChoice, Retrieved]:
        """Searches the index. If it is gone, as after a reindex, resolves the collections again and retries with the
        new one; DamagedIndexError if the catalog still names the missing index."""
        while True:
            name = resolved.collection.active_index
            try:
                labels = self._value_search.choose(request, resolved.collection, query_label)
                found = find_candidates(
                    self._index, name, request, vectors, depth=depth, labels=labels, weights=weights
                )
                return resolved, labels, found
            except EngineFaultError as fault:
                raise mapped_fault(resolved, self._soundness, fault) from fault
            except NotFoundError:
                resolved = self._resolve(request)
                if resolved.collection.active_index == name:
                    raise DamagedIndexError(resolved.collection.name, MISSING_INDEX) from None

    def find_legs(self, request: SearchRequest) -> Mapping[Leg, Sequence[ScoredPoint]]:
        """The results of each leg of a hybrid search, before fusion."""
        request = exclude_negated(request).request
        collection = self._resolve(request).collection
        return find_legs(self._index, collection.active_index, request, self._embed_query(request, collection)[1]).legs


def _completed(refinement: Refinement) -> Future[Refinement]:
    future: Future[Refinement] = Future()
    future.set_result(refinement)
    return future


def refine_query(
    embedder: Embedder,
    text: str,
    *,
    instruction: str | None = None,
    steps: int | None = None,
    token_bias: Mapping[str, float] | None = None,
) -> Refinement:
    """Validates and embeds a query, without a search. Raises InputError."""
    check_query(text)
    _check_refinement(embedder, instruction, steps, token_bias or {})
    return embedder.embed_query(text, instruction=instruction, steps=steps, token_bias=token_bias or None)


def _check_refinement(
    embedder: Embedder, instruction: str | None, steps: int | None, token_bias: Mapping[str, float]
) -> None:
    check_instruction(instruction)
    least, most = embedder.info.min_steps, embedder.info.max_steps
    if steps is not None and not least <= steps <= most:
        raise InputError(f"steps must be {least} to {most} with the model {embedder.info.name}, not {steps}.")
    if steps == 0 and instruction:
        raise InputError("0 steps use the base model, which follows no instruction. Use at least one step.")
    check_token_bias(token_bias)
