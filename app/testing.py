"""Small working components for tests: an embedder with predictable neighbours, and an in-memory vector index."""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from app.errors import ConflictError, EmptyQueryError, InputError, NotFoundError
from app.ports.parts import TextVectors
from app.search.bm25 import document_vector, query_vector
from app.search.filters import has_metadata
from app.types.chunk_text import embedded_text_of
from app.types.documents import IndexStatus, Metadata, Owned, Point, PointDamage, ScoredPoint, Source
from app.types.lens_indexes import UNLABELLED_PAGE, Label
from embedder.model_info import ModelInfo
from embedder.refinement import Refinement
from embedder.refinement_steps import RefinementStep, RefinementToken

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s\ue000-\uf8ff]")  # like BERT tokenizers, without private-use characters
_INSTRUCTION_WEIGHT = 0.5


def text_source(
    uri: str,
    content: str | bytes,
    *,
    media_type: str = "text/plain",
    title: str = "",
    metadata: Metadata | None = None,
) -> Source:
    data = content.encode() if isinstance(content, str) else content
    return Source(uri, uri, media_type, data=data, title=title, metadata=metadata or {})


class ToyEmbedder:
    """A bag of words: each word of the text adds 1, each word of the instruction 0.5, at index crc32(word) mod
    `dimension`.

    Texts are similar if they share words (or, rarely, indices). The refinement of a query consists of its own words,
    and a token bias adds to a word's count. `embedded_texts` records embedded documents, unless `is_recording` is off.
    """

    def __init__(
        self,
        *,
        dimension: int = 256,
        fingerprint: str = "toy-1",
        is_recording: bool = True,
        has_plain_vectors: bool = False,
    ) -> None:
        """`has_plain_vectors`: supports 0 steps, as the default for documents."""
        self.dimension = dimension
        self.fingerprint = fingerprint
        self.embedded_texts: list[str] = []
        self._is_recording = is_recording
        self._min_steps = 0 if has_plain_vectors else 1

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name="toy",
            fingerprint=self.fingerprint,
            dimension=self.dimension,
            max_length=512,
            max_steps=20,
            default_query_instruction="",
            default_query_steps=2,
            default_document_instruction="",
            default_document_steps=self._min_steps,
            min_steps=self._min_steps,
        )

    def is_ready(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing to close."""

    def embed_query(
        self,
        text: str,
        *,
        instruction: str | None = None,
        steps: int | None = None,
        token_bias: Mapping[str, float] | None = None,
    ) -> Refinement:
        if not text.strip():
            raise EmptyQueryError("The query is empty: type what you look for.")
        used_steps = self.info.default_query_steps if steps is None else steps
        if not self._min_steps <= used_steps <= self.info.max_steps:
            raise InputError(f"steps must be {self._min_steps} to {self.info.max_steps}, not {used_steps}.")
        weights = _word_weights(text, instruction or "")
        for word, bias in (token_bias or {}).items():
            weights[word.lower()] = weights.get(word.lower(), 0.0) + bias
        top = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
        total = sum(weight for _, weight in top if weight > 0) or 1.0
        tokens = tuple(RefinementToken(word, weight / total) for word, weight in top if weight > 0)
        return Refinement(
            text=text,
            instruction=instruction or "",
            vector=np.array(self._vector(weights)),
            steps=tuple(RefinementStep(step, tokens) for step in range(1, used_steps + 1)),
        )

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        if self._is_recording:
            self.embedded_texts.extend(texts)
        return [self._vector(_word_weights(text, instruction)) for text in texts]

    def embed_steps(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[list[float]]]:
        return [[vector] * steps for vector in self.embed_documents(texts, instruction=instruction, steps=steps)]

    def for_ingestion(self, is_leaving: Callable[[], bool]) -> Self:
        return self

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _TOKEN.finditer(text)]

    def _vector(self, weights: Mapping[str, float]) -> list[float]:
        vector = [0.0] * self.dimension
        for word, weight in weights.items():
            vector[zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.dimension] += weight
        norm = math.hypot(*vector)
        if norm == 0:  # no words: an arbitrary direction, as from a model
            return [1.0] + [0.0] * (self.dimension - 1)
        return [value / norm for value in vector]


def _word_weights(text: str, instruction: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for source, weight in ((text, 1.0), (instruction, _INSTRUCTION_WEIGHT)):
        for word in _WORD.findall(source.lower()):
            weights[word] = weights.get(word, 0.0) + weight
    return weights


class InMemoryVectorIndex:
    """The VectorIndex port over dictionaries, with brute-force search.

    Indexes `without_words` have no sparse vectors, like those of earlier releases.
    """

    def __init__(self, *, without_words: Container[str] = ()) -> None:
        self._without_words = without_words
        self._points: dict[str, dict[str, Point]] = {}
        self._vectors: dict[str, tuple[int, int]] = {}  # dimension, vectors of a point
        self._aliases: dict[str, str] = {}
        self._lock = threading.RLock()

    def create(self, index: str, *, dimension: int, vectors_per_point: int = 1) -> None:
        with self._lock:
            wanted = dimension, vectors_per_point
            if (present := self._vectors.setdefault(index, wanted)) != wanted:
                raise ConflictError(f"{index!r} exists with dimension and vectors {present}, not {wanted}.")
            self._points.setdefault(index, {})

    def drop(self, index: str) -> None:
        with self._lock:
            self._points.pop(index, None)
            self._vectors.pop(index, None)
            self._aliases = {alias: target for alias, target in self._aliases.items() if target != index}

    def exists(self, index: str) -> bool:
        return self._aliases.get(index, index) in self._points

    def point_to(self, alias: str, index: str) -> None:
        with self._lock:
            self._aliases[alias] = index

    def upsert(self, index: str, points: Sequence[Point]) -> None:
        dimension, vectors_per_point = self._vectors[self._resolve(index)]
        for point in points:
            if not all(all(map(math.isfinite, vector)) and any(vector) for vector in point.steps):
                raise ValueError(f"The vector of point {point.id} is zero or not finite.")
            if (shape := np.shape(point.steps)) != (vectors_per_point, dimension):
                raise ValueError(f"The vectors of point {point.id} are {shape} numbers.")
        with self._lock:
            self._points[self._resolve(index)].update({point.id: point for point in points})

    def set_payloads(self, index: str, payloads: Mapping[str, Mapping[str, object]]) -> None:
        with self._lock:
            points = self._points[self._resolve(index)]
            for point_id, payload in payloads.items():
                if former := points.get(point_id):
                    points[point_id] = replace(former, payload={**former.payload, **payload})

    def add_labels(self, index: str, field: str) -> None:
        self._resolve(index)

    def set_labels(self, index: str, field: str, labels: Mapping[str, Mapping[str, object]]) -> None:
        self.set_payloads(index, {point_id: {field: label} for point_id, label in labels.items()})

    def drop_labels(self, index: str, field: str) -> None:
        with self._lock:
            points = self._points[self._resolve(index)]
            for point in list(points.values()):
                points[point.id] = replace(point, payload={k: v for k, v in point.payload.items() if k != field})

    def unlabelled(self, index: str, field: str) -> Iterator[tuple[list[str], TextVectors]]:
        points = [point for point in self._all(index) if "document_id" in _metadata(point)]
        missing = [point for point in points if field not in point.payload]
        for start in range(0, len(missing), UNLABELLED_PAGE):
            page = missing[start : start + UNLABELLED_PAGE]
            yield [point.id for point in page], _text_vectors(page)

    def vectors(self, index: str, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        points = self.retrieve(index, ids)
        return [point.id for point in points], np.asarray([point.vector for point in points], dtype=np.float32)

    def owned_vectors(self, index: str, ids: Sequence[str]) -> Owned[TextVectors]:
        points = self._owned(index, ids)
        owners = [str(_metadata(point)["document_id"]) for point in points]
        return Owned([point.id for point in points], owners, _text_vectors(points))

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]:
        points = [point for point in self._all(index) if field in point.payload]
        yield {point.id: cast("Mapping[str, object]", point.payload[field]) for point in points}

    def owned_labels(self, index: str, field: str, ids: Sequence[str]) -> Owned[Sequence[Mapping[str, object] | None]]:
        points = self._owned(index, ids)
        labels = [cast("Mapping[str, object] | None", point.payload.get(field)) for point in points]
        return Owned([point.id for point in points], [str(_metadata(point)["document_id"]) for point in points], labels)

    def _owned(self, index: str, ids: Sequence[str]) -> list[Point]:
        return [point for point in self.retrieve(index, ids) if "document_id" in _metadata(point)]

    def labelled(self, index: str, field: str, *, value: int | None = None) -> Iterator[list[Point]]:
        points = [point for point in self._all(index) if field in point.payload]
        yield [Point(point.id, [], point.payload) for point in points if value in (None, _label(point, field))]

    def count_unlabelled(self, index: str, field: str) -> int:
        return sum(len(ids) for ids, _ in self.unlabelled(index, field))

    def label_counts(self, index: str, field: str, *, filters: Mapping[str, str] | None = None) -> dict[int, int]:
        return dict(
            Counter(
                _label(point, field) for point in self._all(index) if _fits(point, filters) and field in point.payload
            )
        )

    def delete_points(self, index: str, ids: Sequence[str]) -> None:
        with self._lock:
            for point_id in ids:
                self._points[self._resolve(index)].pop(point_id, None)

    def delete_document(self, index: str, document_id: str) -> None:
        self.delete_points(index, [point_id for _, point_id in self.points_of(index, [document_id])])

    def search(
        self, index: str, vector: Sequence[float], *, limit: int, with_payload: bool = True, **options: Any
    ) -> list[ScoredPoint]:
        points = [point for point in self._all(index) if _fits(point, **options)]
        scores = _best_cosines(vector, points)
        hits = [
            ScoredPoint(point.id, score, point.payload if with_payload else {})
            for point, score in zip(points, scores, strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def search_beside(
        self, index: str, vector: Sequence[float], *, limit: int, labelled: tuple[Label, int], **options: Any
    ) -> tuple[list[ScoredPoint], list[ScoredPoint]]:
        label, most = labelled
        nearest = self.search(index, vector, limit=limit, **options)
        return nearest, self.search(index, vector, limit=most, **{**options, "label": label})

    def has_sparse(self, index: str) -> bool:
        return self._resolve(index) not in self._without_words

    def search_sparse(
        self,
        index: str,
        text: str,
        *,
        limit: int,
        filters: Mapping[str, str] | None = None,
        label: Label | None = None,
    ) -> list[ScoredPoint]:
        if not self.has_sparse(index):
            raise ConflictError(f"The index {index!r} has no sparse vectors.")
        vectors = {point.id: document_vector(embedded_text_of(point.payload)) for point in self._all(index)}
        weights = {
            id: dict(zip(vector.indices, vector.values, strict=True)) for id, vector in vectors.items() if vector
        }
        idf = {}
        for term in query_vector(text).indices:
            frequency = sum(term in words for words in weights.values())
            idf[term] = math.log((len(weights) - frequency + 0.5) / (frequency + 0.5) + 1)  # like Qdrant
        hits = [
            ScoredPoint(point.id, sum(idf[term] * weights[point.id].get(term, 0) for term in idf), point.payload)
            for point in self._all(index)
            if _fits(point, filters, label) and idf.keys() & weights.get(point.id, {}).keys()
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def search_legs(
        self,
        index: str,
        vectors: Sequence[Sequence[float]],
        text: str,
        *,
        limit: int,
        with_payload: bool = True,
        **options: Any,
    ) -> tuple[list[list[ScoredPoint]], list[ScoredPoint]]:
        words = self.search_sparse(index, text, limit=limit, **options) if text else []
        legs = [self.search(index, vector, limit=limit, **options) for vector in vectors]
        if not with_payload:
            words, *legs = [[replace(hit, payload={}) for hit in hits] for hits in (words, *legs)]
        return legs, words

    def count(self, index: str, *, document_id: str | None = None) -> int:
        ids = self.point_ids(index) if document_id is None else self.points_of(index, [document_id])
        return sum(1 for _ in ids)

    def point_ids(self, index: str) -> Iterator[str]:
        for point in self._all(index):
            yield point.id

    def points_of(self, index: str, document_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        for point in self._all(index):
            owner = _metadata(point).get("document_id")
            if owner in document_ids:
                yield str(owner), point.id

    def retrieve(self, index: str, ids: Sequence[str]) -> list[Point]:
        wanted = set(ids)
        return [point for point in self._all(index) if point.id in wanted]

    def payloads(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        return {point.id: dict(point.payload) for point in self.retrieve(index, ids)}

    def present_ids(self, index: str, ids: Sequence[str]) -> set[str]:
        return {point.id for point in self.retrieve(index, ids)}

    def scan(self, index: str) -> Iterator[list[Point]]:
        yield [Point(point.id, (), {"metadata": point.payload.get("metadata")}) for point in self._all(index)]

    def indexes(self) -> list[str]:
        return sorted(self._points)

    def aliases(self) -> dict[str, str]:
        return dict(self._aliases)

    def optimize(self, index: str) -> None:
        self._resolve(index)

    def condition(self, index: str) -> IndexStatus:
        return IndexStatus(self.count(index), indexed_vectors=0, segments=1)

    def lacks_replicas(self, index: str) -> bool:
        return False

    def is_alive(self) -> bool:
        return True

    def inspect(self, index: str, ids: Sequence[str]) -> PointDamage | None:
        wrong = [point.id for point in self.retrieve(index, ids) if "page_content" not in point.payload]
        return PointDamage(f"{len(wrong)} points have no text", tuple(wrong)) if wrong else None

    def _resolve(self, name: str) -> str:
        index = self._aliases.get(name, name)
        if index not in self._points:
            raise NotFoundError(f"The vector index has no collection {name!r}.")
        return index

    def _all(self, index: str) -> list[Point]:
        with self._lock:
            return list(self._points[self._resolve(index)].values())


def _text_vectors(points: Sequence[Point]) -> TextVectors:
    texts = [str(point.payload.get("page_content", "")) for point in points]
    return TextVectors(texts, np.asarray([point.vector for point in points], dtype=np.float32))


def _metadata(point: Point) -> Mapping[str, object]:
    metadata = point.payload.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _label(point: Point, field: str) -> int:
    label = point.payload[field]
    assert isinstance(label, Mapping)
    return int(label["value"])


def _fits(point: Point, filters: Mapping[str, str] | None = None, label: Label | None = None) -> bool:
    is_other = label and (label.field not in point.payload or _label(point, label.field) != label.value)
    return not is_other and has_metadata(_metadata(point), filters or {})


def _best_cosines(query: Sequence[float], points: Sequence[Point]) -> list[float]:
    if not points:
        return []
    left, right = np.asarray(query), np.asarray([point.steps for point in points])  # (D,), (n, K, D)
    return (right @ left / (np.linalg.norm(left) * np.linalg.norm(right, axis=2))).max(axis=1).tolist()
