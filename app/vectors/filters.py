"""Which points are meant: Qdrant's filters by document, and by the equality of metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from qdrant_client import models

from app.search.filters import check_filters, read_filter
from app.search.retrieval import CHUNK_KEYS
from app.types.lens_indexes import Label

DOCUMENT_ID_FIELD = "metadata.document_id"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def of_documents(document_ids: Sequence[str]) -> models.Filter:
    return models.Filter(
        must=[models.FieldCondition(key=DOCUMENT_ID_FIELD, match=models.MatchAny(any=list(document_ids)))]
    )


def of_ids(ids: Sequence[str]) -> models.Filter:
    """For changes, since Qdrant answers 404 to an id that is not there."""
    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])


def metadata_filter(filters: Mapping[str, str] | None, label: Label | None = None) -> models.Filter | None:
    """Of points that have these metadata, and this label."""
    must: list[models.Condition] = [
        _equals(_metadata_path(key), value) for key, value in check_filters(filters or {}).items()
    ]
    if label is not None:
        must.append(models.FieldCondition(key=label_path(label.field), match=models.MatchValue(value=label.value)))
    return models.Filter(must=must) if must else None


def _equals(path: str, value: str) -> models.Filter:
    reading = read_filter(value)
    readings: list[models.Condition] = [models.FieldCondition(key=path, match=models.MatchValue(value=reading.text))]
    if reading.truth is not None:
        readings.append(models.FieldCondition(key=path, match=models.MatchValue(value=reading.truth)))
    if reading.number is not None:
        # A range finds integers as well as floats.
        readings.append(models.FieldCondition(key=path, range=models.Range(gte=reading.number, lte=reading.number)))
    return models.Filter(should=readings)


def label_path(field: str) -> str:
    return f"{field}.value"


def text_paths(payloads: Iterable[Mapping[str, object]]) -> list[str]:
    """Where payloads have texts that can be filtered by, those that most of them have first."""
    found: Counter[str] = Counter()
    for payload in payloads:
        metadata = payload.get("metadata")
        if isinstance(metadata, Mapping):
            texts = (key for key, value in metadata.items() if isinstance(value, str) and key not in CHUNK_KEYS)
            found.update(key for key in texts if _PLAIN_KEY.fullmatch(key))
    return [_metadata_path(key) for key, _ in found.most_common()]


def _metadata_path(key: str) -> str:
    return f"metadata.{key}" if _PLAIN_KEY.fullmatch(key) else f'metadata."{key}"'
