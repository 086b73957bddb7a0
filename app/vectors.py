"""The vector index on Qdrant: an embedded Edge server, a Qdrant server, or the client's own memory in unit tests.

The only importer of qdrant_client. Knows points, payloads and filters; nothing of models, documents' files or SQL.
"""

from __future__ import annotations

import itertools
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from app.edge import EdgeProcess
from app.errors import ConflictError, InputError, NotFoundError, VectorIndexUnavailableError
from app.metadata_filters import check_filters, read_filter
from app.types import IndexCondition, Point, ScoredPoint

T = TypeVar("T")

_DOCUMENT_ID_FIELD = "metadata.document_id"
_TIMEOUT_S = 60
_ATTEMPTS = 3
_NUMBERS_PER_UPSERT = 100_000  # about 2 MB of JSON; the embedded engine answers nobody while it takes them in
_PAYLOADS_PER_UPDATE = 500
_SCROLL_PAGE = 1000
_INDEXING_THRESHOLD_KB = 10_000  # Qdrant's own
_OPTIMIZING = "optimising"
_MOST_TIES = 10_000
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


class QdrantVectorIndex:
    """Implements the port `VectorIndex`.

    `reconnect` gives a new client after the present one has lost its server; every operation here may be repeated.
    """

    def __init__(self, client: QdrantClient, *, reconnect: Callable[[], QdrantClient] | None = None) -> None:
        self._client = client
        self._reconnect = reconnect
        self._lock = threading.Lock()

    @classmethod
    def over_edge(cls, edge: EdgeProcess) -> Self:
        def connect() -> QdrantClient:
            connection = edge.start()
            # As a header, since the client warns of an `api_key` over plain HTTP, which never leaves this machine.
            return _client(connection.url, headers={"api-key": connection.token}, trust_env=False)

        return cls(connect(), reconnect=connect)

    @classmethod
    def at(cls, url: str, *, api_key: str | None = None) -> Self:
        return cls(_client(url, api_key=api_key))

    @property
    def client(self) -> QdrantClient:
        """For LangChain's `QdrantVectorStore` and the like; it does not outlive a restart of the embedded engine."""
        return self._client

    def close(self) -> None:
        self._client.close()

    def create(self, index: str, *, dimension: int) -> None:
        params = models.VectorParams(size=dimension, distance=models.Distance.COSINE)

        def create_if_missing(client: QdrantClient) -> None:
            if not client.collection_exists(index):
                client.create_collection(index, vectors_config=params)
            existing = client.get_collection(index).config.params.vectors
            if not isinstance(existing, models.VectorParams) or existing.size != dimension:
                raise ConflictError(
                    f"The vector index already has a collection {index!r} with other vectors ({existing}), "
                    f"not one of dimension {dimension}. Use another name, or delete it first."
                )
            client.create_payload_index(index, _DOCUMENT_ID_FIELD, models.PayloadSchemaType.KEYWORD)

        self._call(index, create_if_missing)

    def drop(self, index: str) -> None:
        self._call(index, lambda client: client.delete_collection(index))

    def exists(self, index: str) -> bool:
        return self._call(index, lambda client: client.collection_exists(index))

    def point_to(self, alias: str, index: str) -> None:
        action = models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=index))
        self._call(index, lambda client: client.update_collection_aliases([action]))

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        checked = [
            models.PointStruct.model_construct(  # its checks would take longer than the engine does
                id=point.id, vector=_unit(point.vector, f"point {point.id}"), payload=dict(point.payload)
            )
            for point in points
        ]
        if not points:
            return
        size = max(1, _NUMBERS_PER_UPSERT // len(points[0].vector))
        for start in range(0, len(checked), size):
            batch = checked[start : start + size]
            self._call(index, partial(QdrantClient.upsert, collection_name=index, points=batch, wait=True))

    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None:
        # Chosen by a filter, since Qdrant answers 404 to an id that is not there.
        operations: list[models.UpdateOperation] = [
            models.OverwritePayloadOperation(
                overwrite_payload=models.SetPayload(
                    payload=dict(payload), filter=models.Filter(must=[models.HasIdCondition(has_id=[point_id])])
                )
            )
            for point_id, payload in payloads.items()
        ]
        for start in range(0, len(operations), _PAYLOADS_PER_UPDATE):
            batch = operations[start : start + _PAYLOADS_PER_UPDATE]
            update = partial(QdrantClient.batch_update_points, collection_name=index, update_operations=batch)
            self._call(index, update)

    def delete_points(self, index: str, ids: Sequence[str]) -> None:
        if ids:
            selector = models.PointIdsList(points=[_raw_id(point_id) for point_id in ids])
            self._call(index, lambda client: client.delete(index, selector, wait=True))

    def delete_document(self, index: str, document_id: str) -> None:
        selector = models.FilterSelector(filter=_of_documents([document_id]))
        self._call(index, lambda client: client.delete(index, selector, wait=True))

    def search(
        self, index: str, vector: Sequence[float], *, limit: int, filters: Mapping[str, str] | None = None
    ) -> list[ScoredPoint]:
        query, condition = _unit(vector, "the query"), _metadata_filter(filters or {})

        def fetch(client: QdrantClient, ask: int) -> list[models.ScoredPoint]:
            return client.query_points(
                index,
                query=query,
                query_filter=condition,
                limit=ask,
                with_payload=True,
                search_params=models.SearchParams(exact=True),
            ).points

        def fetch_whole_ties(client: QdrantClient) -> list[models.ScoredPoint]:
            """Qdrant cuts equal scores off anywhere, so as many are fetched as it takes to see the next score."""
            ask = limit + 1
            found = fetch(client, ask)
            while len(found) == ask and found[-1].score == found[limit - 1].score and ask < limit + _MOST_TIES:
                ask *= 4
                found = fetch(client, ask)
            return found

        found = self._call(index, fetch_whole_ties)
        hits = [ScoredPoint(id=str(hit.id), score=hit.score, payload=hit.payload or {}) for hit in found]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def count(self, index: str, *, document_id: str | None = None) -> int:
        condition = None if document_id is None else _of_documents([document_id])
        return self._call(index, lambda client: client.count(index, count_filter=condition, exact=True).count)

    def point_ids(self, index: str) -> Iterator[str]:
        for record in self._records(index, with_payload=False):
            yield str(record.id)

    def points_of(self, index: str, document_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        condition, fields = _of_documents(document_ids), [_DOCUMENT_ID_FIELD]
        for record in self._records(index, scroll_filter=condition, with_payload=fields):
            metadata = (record.payload or {})["metadata"]
            yield metadata["document_id"], str(record.id)

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        fetch = partial(QdrantClient.retrieve, collection_name=index, with_payload=True, with_vectors=True)
        found: list[Point] = []
        for start in range(0, len(ids), _SCROLL_PAGE):
            batch = [_raw_id(point_id) for point_id in ids[start : start + _SCROLL_PAGE]]
            for record in self._call(index, partial(fetch, ids=batch)):
                if isinstance(record.vector, list):
                    found.append(Point(str(record.id), record.vector, record.payload or {}))  # type: ignore[arg-type]
        return found

    def present_ids(self, index: str, ids: Sequence[str]) -> set[str]:
        fetch = partial(QdrantClient.retrieve, collection_name=index, with_payload=False)
        return {str(record.id) for record in self._call(index, partial(fetch, ids=list(ids)))} if ids else set()

    def scan(self, index: str) -> Iterator[list[Point]]:
        for page in self._pages(index, with_payload=["metadata"]):
            yield [Point(str(record.id), (), record.payload or {}) for record in page]

    def indexes(self) -> list[str]:
        return sorted(each.name for each in self._call("", lambda client: client.get_collections()).collections)

    def aliases(self) -> dict[str, str]:
        found = self._call("", lambda client: client.get_aliases()).aliases
        return {each.alias_name: each.collection_name for each in found}

    def optimize(self, index: str) -> None:
        def ask(client: QdrantClient) -> None:
            is_off = client.get_collection(index).config.optimizer_config.indexing_threshold == 0  # for a bulk load
            change = models.OptimizersConfigDiff(indexing_threshold=_INDEXING_THRESHOLD_KB if is_off else None)
            client.update_collection(index, optimizers_config=change)  # with nothing to change, Qdrant's way of asking

        self._call(index, ask)

    def condition(self, index: str) -> IndexCondition:
        info = self._call(index, lambda client: client.get_collection(index))
        return IndexCondition(
            points=info.points_count or 0,
            indexed_vectors=info.indexed_vectors_count or 0,
            segments=info.segments_count,
            activity=self._activity(index) if info.status is models.CollectionStatus.YELLOW else None,
            awaits_optimizing=info.status is models.CollectionStatus.GREY,
            fault=getattr(info.optimizer_status, "error", None),
        )

    def _activity(self, index: str) -> str:
        """The innermost piece of work that goes on; older servers do not tell."""
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

    def is_alive(self) -> bool:
        try:
            self._call("", lambda client: client.get_collections())
        except VectorIndexUnavailableError:
            return False
        return True

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
                if self._reconnect is None or attempt == _ATTEMPTS:
                    raise _unavailable(f"does not answer: {error.source}") from error
            except UnexpectedResponse as error:
                # A restarted server has another token, and may have got the port of the one before.
                if error.status_code != 401 or self._reconnect is None or attempt == _ATTEMPTS:
                    raise _translated(error, index) from error
            except ValueError as error:
                if str(error) == f"Collection {index} not found":  # how the client's memory mode says it
                    raise _missing(index) from error
                raise
            self._renew(client)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _renew(self, failed: QdrantClient) -> None:
        with self._lock:
            if self._client is failed and self._reconnect is not None:  # else another thread has renewed it already
                self._client = self._reconnect()
                failed.close()


def _client(url: str, **options: object) -> QdrantClient:
    return QdrantClient(url=url, timeout=_TIMEOUT_S, check_compatibility=False, **options)  # type: ignore[arg-type]


def _unavailable(what: str) -> VectorIndexUnavailableError:
    return VectorIndexUnavailableError(
        f"The vector index {what}. Check that Qdrant runs at GIRCSE_QDRANT_URL; without that setting, see edge.log."
    )


def _missing(index: str) -> NotFoundError:
    return NotFoundError(
        f"The vector index has no collection {index!r}: its data was removed or belongs to another GIRCSE_HOME. Put it "
        "back, or run `gircse doctor --rebuild`, which makes it again from the stored documents."
    )


def _translated(error: UnexpectedResponse, index: str) -> Exception:
    status = error.status_code or 0
    said = error.content.decode("utf-8", "replace")[:500]
    if status == 404:
        return _missing(index)
    if status in (401, 403):
        return _unavailable(f"refuses the key in GIRCSE_QDRANT_API_KEY ({status}: {said})")
    if status == 409:
        return ConflictError(f"The vector index refuses a name that is taken: {said}")
    if 400 <= status < 500:
        return InputError(f"The vector index refuses a request about collection {index!r} ({status}): {said}")
    return _unavailable(f"fails with {status}: {said}")


def _raw_id(point_id: str) -> int | str:
    """Ids of ours are UUIDs; foreign points may be numbered."""
    return int(point_id) if point_id.isdecimal() else point_id


def _unit(vector: Sequence[float], what: str) -> list[float]:
    """L2-normalised here, because Qdrant leaves very short vectors as they are and then their cosine is wrong."""
    values = np.asarray(vector, dtype=np.float64)
    norm = float(np.linalg.norm(values)) if np.isfinite(values).all() else math.nan
    if not math.isfinite(norm) or norm == 0:
        fault = "is zero" if norm == 0 else "holds NaN or infinite numbers"
        raise ValueError(f"The vector of {what} {fault}, so it has no direction to compare. Embed the text again.")
    is_unit = math.isclose(norm, 1, abs_tol=1e-6)
    return list(vector) if is_unit else (values / norm).tolist()


def _of_documents(document_ids: Sequence[str]) -> models.Filter:
    return models.Filter(
        must=[models.FieldCondition(key=_DOCUMENT_ID_FIELD, match=models.MatchAny(any=list(document_ids)))]
    )


def _metadata_filter(filters: Mapping[str, str]) -> models.Filter | None:
    if not filters:
        return None
    return models.Filter(must=[_equals(_metadata_path(key), value) for key, value in check_filters(filters).items()])


def _equals(path: str, value: str) -> models.Filter:
    reading = read_filter(value)
    readings: list[models.Condition] = [models.FieldCondition(key=path, match=models.MatchValue(value=reading.text))]
    if reading.truth is not None:
        readings.append(models.FieldCondition(key=path, match=models.MatchValue(value=reading.truth)))
    if reading.number is not None:
        # A range finds integers as well as floats.
        readings.append(
            models.FieldCondition(key=path, range=models.Range(gte=reading.number, lte=reading.number))
        )
    return models.Filter(should=readings)


def _metadata_path(key: str) -> str:
    return f"metadata.{key}" if _PLAIN_KEY.fullmatch(key) else f'metadata."{key}"'
