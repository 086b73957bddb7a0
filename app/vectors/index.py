"""The vector index on Qdrant: an embedded Edge server, a Qdrant server, or the client's in-memory mode in unit tests.

Knows points, payloads and filters, but no models, files or SQL.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

import httpx
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from app.edge import EdgeConnection, EdgeProcess
from app.edge.transport import EdgeTransport
from app.errors import ConflictError, NotFoundError, VectorIndexUnavailableError
from app.types.documents import IndexStatus, Point, ScoredPoint
from app.types.lens_indexes import Label
from app.vectors import tuning
from app.vectors.cluster import has_lone_shard, node_count, read_past_hung_nodes, warn_of_open_keys
from app.vectors.creation import create_collection
from app.vectors.dense_vectors import retrieve_points
from app.vectors.errors import missing, translated, unanswered
from app.vectors.filters import DOCUMENT_ID_FIELD, of_documents, of_ids
from app.vectors.inspection import InspectedPoints
from app.vectors.nodes import NodeTransport
from app.vectors.points import (
    WORDS,
    batches,
    payload_change,
    payload_of,
    point_structs,
    raw_id,
    unit,
    words_query,
)
from app.vectors.whole_ties import query_whole_ties

T = TypeVar("T")

_TIMEOUT_S = 60
_ATTEMPTS = 3
_NUMBERS_PER_UPSERT = 100_000  # about 2 MB of JSON; the embedded engine answers nothing else during an upsert
_PAYLOADS_PER_UPDATE = 500
_SCROLL_PAGE = 1000
_OPTIMIZING = "optimising"


class QdrantVectorIndex(InspectedPoints):
    """The vector index on a Qdrant server, or on the embedded engine. Implements the port `VectorIndex`.

    reconnect: returns a new client, for when the current one has lost its server; the failed operation is repeated.
    is_embedded: the server is app/edge, which sends vectors as one block and orders equal scores by id.
    """

    def __init__(
        self,
        client: QdrantClient,
        *,
        quantization: tuning.Quantization = "none",
        sharding: tuning.Sharding = tuning.AS_THE_CLUSTER_IS,
        reconnect: Callable[[], QdrantClient] | None = None,
        is_embedded: bool = False,
    ) -> None:
        self._client = client
        self._quantization = quantization
        self._sharding = sharding
        self._reconnect = reconnect
        self._is_embedded = is_embedded
        self._lock = threading.Lock()
        self._with_words: set[str] = set()
        self._searched = tuning.SearchedIndexes(self._info)

    @classmethod
    def over_edge(cls, edge: EdgeProcess, *, quantization: tuning.Quantization = "none") -> Self:
        def client_of(connection: EdgeConnection) -> QdrantClient:
            # As a header: given as `api_key`, the client warns of plain HTTP, which here never leaves the machine.
            headers = {"api-key": connection.token}
            return _client(connection.url, headers=headers, transport=EdgeTransport(connection))

        return cls(
            client_of(edge.start()),
            quantization=quantization,
            reconnect=lambda: client_of(edge.reach()),
            is_embedded=True,
        )

    @classmethod
    def at(
        cls,
        url: str,
        *,
        api_key: str | None = None,
        quantization: tuning.Quantization = "none",
        sharding: tuning.Sharding = tuning.AS_THE_CLUSTER_IS,
    ) -> Self:
        """Connects to a server, or to the nodes of a cluster. url: comma-separated addresses."""
        urls = [address.strip() for address in url.split(",")]
        if api_key is not None:
            warn_of_open_keys(urls)
        # As a header: given as `api_key`, the client warns of plain HTTP even on private networks.
        headers = {} if api_key is None else {"api-key": api_key}
        return cls(
            _client(urls[0], headers=headers, transport=NodeTransport(urls)),
            quantization=quantization,
            sharding=sharding,
        )

    @property
    def client(self) -> QdrantClient:
        """The Qdrant client, for instance for LangChain's `QdrantVectorStore`. Invalid after a restart of the embedded
        engine."""
        return self._client

    def close(self) -> None:
        self._client.close()

    def create(self, index: str, *, dimension: int, vectors_per_point: int = 1) -> None:
        create = partial(
            create_collection,
            index=index,
            dimension=dimension,
            is_multivector=vectors_per_point > 1,
            quantization=self._quantization,
            sharding=None if self._is_embedded else self._sharding,
        )
        self._call(index, create)

    def drop(self, index: str) -> None:
        self._with_words.discard(index)
        self._searched.forget(index)
        self._call(index, lambda client: client.delete_collection(index))

    def exists(self, index: str) -> bool:
        return self._call(index, lambda client: client.collection_exists(index))

    def point_to(self, alias: str, index: str) -> None:
        action = models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=index))
        self._call(index, lambda client: client.update_collection_aliases([action]))

    def has_sparse(self, index: str) -> bool:
        # Cache only True: an index never loses its sparse vectors, but may be recreated with them.
        if index not in self._with_words and WORDS in (self._info(index).config.params.sparse_vectors or {}):
            self._with_words.add(index)
        return index in self._with_words

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        if not points:
            return
        is_multivector = self._searched.of(index).is_multivector
        structs = point_structs(points, with_words=self.has_sparse(index), is_multivector=is_multivector)
        for batch in batches(structs, most_numbers=_NUMBERS_PER_UPSERT):
            self._call(index, partial(QdrantClient.upsert, collection_name=index, points=batch, wait=True))

    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None:
        operations: list[models.UpdateOperation] = [
            models.SetPayloadOperation(
                set_payload=models.SetPayload(payload=payload_change(payload), filter=of_ids([point_id]))
            )
            for point_id, payload in payloads.items()
        ]
        for start in range(0, len(operations), _PAYLOADS_PER_UPDATE):
            batch = operations[start : start + _PAYLOADS_PER_UPDATE]
            update = partial(QdrantClient.batch_update_points, collection_name=index, update_operations=batch)
            self._call(index, update)

    def delete_points(self, index: str, ids: Sequence[str]) -> None:
        if ids:
            selector = models.PointIdsList(points=[raw_id(point_id) for point_id in ids])
            self._call(index, lambda client: client.delete(index, selector, wait=True))

    def delete_document(self, index: str, document_id: str) -> None:
        selector = models.FilterSelector(filter=of_documents([document_id]))
        self._call(index, lambda client: client.delete(index, selector, wait=True))

    def search(
        self,
        index: str,
        vector: Sequence[float],
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
        with_payload: bool = True,
    ) -> list[ScoredPoint]:
        nearest = self._nearest(index, vector, self._condition(index, filters, label))
        [points] = self._query(index, [(nearest, limit)], with_payload=with_payload)
        return points

    def search_beside(
        self,
        index: str,
        vector: Sequence[float],
        *,
        limit: int,
        labelled: tuple[Label, int],
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
        with_payload: bool = True,
    ) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        searches = [(label, limit), labelled]
        legs = [(self._nearest(index, vector, self._condition(index, filters, own)), most) for own, most in searches]
        points, labelled_points = self._query(index, legs, with_payload=with_payload)
        return points, labelled_points

    def search_sparse(
        self,
        index: str,
        text: str,
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
    ) -> list[ScoredPoint]:
        self._require_words(index)
        words = _with_words(text, self._condition(index, filters, label))
        return self._query(index, [(words, limit)])[0] if words else []

    def search_legs(
        self,
        index: str,
        vectors: Sequence[Sequence[float]],
        text: str,
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
        with_payload: bool = True,
    ) -> tuple[list[list[ScoredPoint]], list[ScoredPoint]]:
        if text:
            self._require_words(index)
        condition = self._condition(index, filters, label)
        nearest, words = [self._nearest(index, vector, condition) for vector in vectors], _with_words(text, condition)
        if words is None:
            return self._query(index, [(query, limit) for query in nearest], with_payload=with_payload), []
        legs = [(query, limit) for query in (*nearest, words)]
        *dense, sparse = self._query(index, legs, with_payload=with_payload)
        return dense, sparse

    def count(self, index: str, *, document_id: str | None = None) -> int:
        condition = None if document_id is None else of_documents([document_id])
        return self._call(index, lambda client: client.count(index, count_filter=condition, exact=True).count)

    def point_ids(self, index: str) -> Iterator[str]:
        for record in self._records(index, with_payload=False):
            yield str(record.id)

    def points_of(self, index: str, document_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        condition, fields = of_documents(document_ids), [DOCUMENT_ID_FIELD]
        for record in self._records(index, scroll_filter=condition, with_payload=fields):
            metadata = (record.payload or {})["metadata"]
            yield metadata["document_id"], str(record.id)

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        fetch = partial(retrieve_points, index=index, is_packed=self._is_embedded)
        pages = (ids[start : start + _SCROLL_PAGE] for start in range(0, len(ids), _SCROLL_PAGE))
        return [point for page in pages for point in self._call(index, partial(fetch, ids=page))]

    def payloads(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        fetch = partial(QdrantClient.retrieve, collection_name=index, ids=list(ids), with_payload=True)
        return {str(record.id): payload_of(record.payload) for record in self._call(index, fetch)} if ids else {}

    def present_ids(self, index: str, ids: Sequence[str]) -> set[str]:
        fetch = partial(QdrantClient.retrieve, collection_name=index, with_payload=False)
        return {str(record.id) for record in self._call(index, partial(fetch, ids=list(ids)))} if ids else set()

    def scan(self, index: str) -> Iterator[list[Point]]:
        for page in self._pages(index, with_payload=["metadata"]):
            yield [Point(str(record.id), (), record.payload or {}) for record in page]

    def indexes(self) -> list[str]:
        collections = self._call("", lambda client: client.get_collections()).collections
        return sorted(collection.name for collection in collections)

    def aliases(self) -> dict[str, str]:
        aliases = self._call("", lambda client: client.get_aliases()).aliases
        return {alias.alias_name: alias.collection_name for alias in aliases}

    def optimize(self, index: str) -> None:
        """Applies the current settings, which may differ from those at the index's creation."""
        self._index_metadata(index)
        self._call(
            index,
            lambda client: client.update_collection(
                index,
                vectors_config=tuning.vector_changes(self._quantization),
                quantization_config=tuning.quantization_config(self._quantization) or models.Disabled.DISABLED,
                optimizers_config=tuning.optimizers_config(),
            ),
        )
        self._call(index, partial(read_past_hung_nodes, index=index))
        self._searched.forget(index)

    def condition(self, index: str) -> IndexStatus:
        info = self._info(index)
        return IndexStatus(
            points=info.points_count or 0,
            indexed_vectors=info.indexed_vectors_count or 0,
            segments=info.segments_count,
            activity=self._activity(index) if info.status is models.CollectionStatus.YELLOW else None,
            awaits_optimizing=info.status is models.CollectionStatus.GREY,
            fault=getattr(info.optimizer_status, "error", None),
        )

    def _activity(self, index: str) -> str:
        """Name and progress of the innermost optimisation step; `_OPTIMIZING` if the server is too old to report it."""
        try:
            running = self._call(index, lambda client: client.get_optimizations(index)).running
        except NotFoundError:
            return _OPTIMIZING
        name, steps = _OPTIMIZING, [optimization.progress for optimization in running]
        while steps:
            name, (done, total) = steps[0].name, (steps[0].done, steps[0].total)
            if total:
                name = f"{name} ({done or 0:,} of {total:,})"
            steps = [step for step in steps[0].children or () if step.started_at and not step.finished_at]
        return name

    def lacks_replicas(self, index: str) -> bool:
        if self._is_embedded or self._sharding.replicas == 1 or self._call("", node_count) == 1:
            return False
        return self._call(index, partial(has_lone_shard, index=index))

    def is_alive(self) -> bool:
        try:
            self._call("", lambda client: client.get_collections())
        except VectorIndexUnavailableError:
            return False
        return True

    def _info(self, index: str) -> models.CollectionInfo:
        return self._call(index, lambda client: client.get_collection(index))

    def _nearest(self, index: str, vector: Sequence[float], condition: models.Filter | None) -> models.QueryRequest:
        searched, query = self._searched.of(index), unit(vector, "the query")
        nearest = models.NearestQuery(nearest=[query] if searched.is_multivector else query)
        return models.QueryRequest(query=nearest, filter=condition, params=searched.params)

    def _require_words(self, index: str) -> None:
        if not self.has_sparse(index):
            raise ConflictError(f"The index {index!r} was created by an old release and has no word index.")

    def _query(
        self, index: str, legs: Sequence[tuple[models.QueryRequest, int]], *, with_payload: bool = True
    ) -> list[list[ScoredPoint]]:
        query = partial(
            query_whole_ties, index=index, legs=legs, with_payload=with_payload, is_ordered=self._is_embedded
        )
        return self._call(index, query)

    def _records(self, index: str, **options: object) -> Iterator[models.Record]:
        return itertools.chain.from_iterable(self._pages(index, **options))

    def _pages(self, index: str, **options: object) -> Iterator[list[models.Record]]:
        scroll = partial(QdrantClient.scroll, collection_name=index, limit=_SCROLL_PAGE, **options)  # type: ignore[arg-type]
        offset: models.ExtendedPointId | None = None
        while True:
            records, offset = self._call(index, partial(scroll, offset=offset))
            yield records
            if offset is None:
                return

    def _call(self, index: str, operation: Callable[[QdrantClient], T]) -> T:
        for attempt in itertools.count(1):
            client = self._client
            try:
                return operation(client)
            except ResponseHandlingException as error:
                is_hanging = isinstance(error.source, httpx.TimeoutException)
                if self._reconnect is None or is_hanging or attempt == _ATTEMPTS:
                    reason = str(error.source) or type(error.source).__name__
                    raise unanswered(reason) from error
            except UnexpectedResponse as error:
                # A restarted server has a new token, and may listen on the port of its predecessor.
                if error.status_code != 401 or self._reconnect is None or attempt == _ATTEMPTS:
                    raise translated(error, index) from error
            except ValueError as error:
                if str(error) == f"Collection {index} not found":  # the client's in-memory mode
                    raise missing(index) from error
                raise
            self._renew(client)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _renew(self, failed: QdrantClient) -> None:
        """Replaces the client unless another thread has done so.

        Connects without holding the lock: otherwise, if the engine hangs, requests would wait one after another.
        """
        if self._client is not failed or self._reconnect is None:
            return
        spare = self._reconnect()
        with self._lock:
            if self._client is failed:
                self._client, spare = spare, failed
        spare.close()  # the failed client, or the new one if another thread was faster


def _client(url: str, **options: object) -> QdrantClient:
    return QdrantClient(url=url, timeout=_TIMEOUT_S, check_compatibility=False, **options)  # type: ignore[arg-type]


def _with_words(text: str, condition: models.Filter | None) -> models.QueryRequest | None:
    """The BM25 query of a text; None if it has no words."""
    words = words_query(text)
    if words is None:
        return None
    return models.QueryRequest(query=models.NearestQuery(nearest=words), using=WORDS, filter=condition)
