"""Converts points to Qdrant's format: a dense unit vector under the default name, and a sparse vector under `bm25`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from qdrant_client import models

from app.search.bm25 import SparseVector, document_vector, query_vector
from app.types.chunk_text import embedded_text_of
from app.types.documents import Point
from app.vectors.filters import NUMBERS_FIELD, numbers_of

# Stands for the rules of app/search/bm25.py. Change the name with the rules, so that older indexes need a reindex.
WORDS = "bm25"


def point_structs(
    points: Sequence[Point], *, with_words: bool, is_multivector: bool = False
) -> list[models.PointStruct]:
    """Converts points; a chunk without words gets no sparse vector. Raises ValueError for a zero or invalid vector."""
    structs = []
    for point in points:
        dense = _dense(point, is_multivector=is_multivector)
        words = document_vector(embedded_text_of(point.payload)) if with_words else None
        vector = {"": dense, WORDS: _sparse(words)} if words else dense
        # Without pydantic's validation, which would take longer than the engine's work.
        structs.append(
            models.PointStruct.model_construct(id=point.id, vector=vector, payload=stored_payload(point.payload))
        )
    return structs


def _dense(point: Point, *, is_multivector: bool) -> list[float] | list[list[float]]:
    if bool(point.earlier_steps) is not is_multivector:
        expected = "multivectors" if is_multivector else "one vector per point"
        raise ValueError(f"The point {point.id} has {len(point.steps)} vectors, but its index holds {expected}.")
    if not is_multivector:
        return unit(point.vector, f"point {point.id}")
    return [unit(vector, f"point {point.id}") for vector in point.steps]


def stored_payload(payload: Mapping[str, object]) -> dict[str, object]:
    """Adds NUMBERS_FIELD, the copy of the metadata's numbers for filters."""
    numbers = numbers_of(payload.get("metadata"))
    return {**payload, NUMBERS_FIELD: numbers} if numbers else dict(payload)


def payload_change(payload: Mapping[str, object]) -> dict[str, object]:
    """Like `stored_payload`, for a change of existing points: also clears numbers that the metadata no longer have."""
    return {NUMBERS_FIELD: {}, **stored_payload(payload)} if "metadata" in payload else dict(payload)


def payload_of(kept: Mapping[str, object] | None) -> dict[str, object]:
    """Removes NUMBERS_FIELD: the payload as the caller wrote it."""
    return {key: value for key, value in (kept or {}).items() if key != NUMBERS_FIELD}


def batches(points: Sequence[models.PointStruct], *, most_numbers: int) -> Iterator[list[models.PointStruct]]:
    batch: list[models.PointStruct] = []
    numbers = 0
    for point in points:
        size = _count_numbers(point.vector)
        if batch and numbers + size > most_numbers:
            yield batch
            batch, numbers = [], 0
        batch.append(point)
        numbers += size
    if batch:
        yield batch


def words_query(text: str) -> models.SparseVector | None:
    words = query_vector(text)
    return _sparse(words) if words else None


def steps_of(vector: object) -> list[list[float]] | None:
    """The dense vectors of a retrieved point: one per step of a multivector, else a single one; None if it has none.

    vector: as the client returns it, a dict if several vector names were requested.
    """
    dense = vector.get("") if isinstance(vector, dict) else vector
    if not isinstance(dense, list) or not dense:
        return None
    return dense if isinstance(dense[0], list) else [dense]


def raw_id(point_id: str) -> int | str:
    """The id for Qdrant: gircse's ids are UUIDs, but points of other programs may have integer ids."""
    return int(point_id) if point_id.isdecimal() else point_id


def unit(vector: Sequence[float], what: str) -> list[float]:
    """L2-normalises. Qdrant itself leaves very short vectors unchanged, which makes their cosines wrong.

    Raises ValueError for a zero vector and for NaN or infinite numbers; `what` names the vector in the message.
    """
    values = np.asarray(vector, dtype=np.float64)
    norm = float(np.linalg.norm(values)) if np.isfinite(values).all() else math.nan
    if not math.isfinite(norm) or norm == 0:
        error = "is zero" if norm == 0 else "holds NaN or infinite numbers"
        raise ValueError(f"The vector of {what} {error}, so it has no direction to compare. Embed the text again.")
    is_unit = math.isclose(norm, 1, abs_tol=1e-6)
    return list(vector) if is_unit else (values / norm).tolist()


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector.model_construct(indices=list(vector.indices), values=list(vector.values))


def _count_numbers(vector: object) -> int:
    if isinstance(vector, dict):
        return _count_numbers(vector[""]) + 2 * len(vector[WORDS].indices)
    if not isinstance(vector, list):
        return 0
    return sum(map(len, vector)) if vector and isinstance(vector[0], list) else len(vector)
