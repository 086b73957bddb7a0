"""Builds Qdrant's filters by document, point id, metadata and label."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from qdrant_client import models

from app.search.filters import check_filters, read_filter
from app.search.retrieval import CHUNK_KEYS
from app.types.lens_indexes import Label

DOCUMENT_ID_FIELD = "metadata.document_id"
# A copy of the metadata's numbers: a payload field of Qdrant can have an index for texts or for numbers, not both.
NUMBERS_FIELD = "metadata_numbers"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def of_documents(document_ids: Sequence[str]) -> models.Filter:
    return models.Filter(
        must=[models.FieldCondition(key=DOCUMENT_ID_FIELD, match=models.MatchAny(any=list(document_ids)))]
    )


def of_ids(ids: Sequence[str]) -> models.Filter:
    """Selects points by id for changes; a filter ignores missing ids, where a plain id list gets a 404."""
    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])


def metadata_filter(
    filters: Mapping[str, str] | None, label: Label | None = None, *, number_paths: Collection[str] = ()
) -> models.Filter | None:
    """A filter for points with these metadata and this label; None if there is nothing to filter.

    number_paths: paths of NUMBERS_FIELD with a payload index. Other numbers are compared in the metadata itself, which
    reads payload after payload.
    """
    must: list[models.Condition] = [
        _equals(key, value, number_paths) for key, value in check_filters(filters or {}).items()
    ]
    if label is not None:
        must.append(models.FieldCondition(key=label_path(label.field), match=models.MatchValue(value=label.value)))
    return models.Filter(must=must) if must else None


def _equals(key: str, value: str, number_paths: Collection[str]) -> models.Filter:
    reading, path = read_filter(value), metadata_path(key)
    readings: list[models.Condition] = [
        models.FieldCondition(key=path, match=models.MatchValue(value=text)) for text in reading.texts
    ]
    if reading.truth is not None:
        readings.append(models.FieldCondition(key=path, match=models.MatchValue(value=reading.truth)))
    if reading.number is not None:
        # A range matches integers as well as floats.
        same = models.Range(gte=reading.number, lte=reading.number)
        own = number_path(key)
        readings.append(models.FieldCondition(key=own if own in number_paths else path, range=same))
    return models.Filter(should=readings)


def label_path(field: str) -> str:
    return f"{field}.value"


def number_path(key: str) -> str:
    return f"{NUMBERS_FIELD}.{key}"


def numbers_of(metadata: object) -> dict[str, object]:
    """The numbers for NUMBERS_FIELD, by key, also from lists. Only keys that need no quotes in a path."""
    if not isinstance(metadata, Mapping):
        return {}
    found = ((key, _numbers_in(value)) for key, value in metadata.items())
    return {key: numbers for key, numbers in found if numbers and _is_filtered(key)}


def filtered_keys(payloads: Iterable[Mapping[str, object]]) -> tuple[list[str], list[str]]:
    """Returns the metadata keys with texts or numbers, and the keys with numbers; both most frequent first."""
    texts: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for payload in payloads:
        metadata = payload.get("metadata")
        if isinstance(metadata, Mapping):
            own = numbers_of(metadata).keys()
            numbers.update(own)
            texts.update(own)
            texts.update(key for key, value in metadata.items() if isinstance(value, str) and _is_filtered(key))
    return [key for key, _ in texts.most_common()], [key for key, _ in numbers.most_common()]


def metadata_path(key: str) -> str:
    return f"metadata.{key}" if _PLAIN_KEY.fullmatch(key) else f'metadata."{key}"'


def _is_filtered(key: str) -> bool:
    return key not in CHUNK_KEYS and _PLAIN_KEY.fullmatch(key) is not None


def _numbers_in(value: object) -> list[float]:
    values = value if isinstance(value, list | tuple) else [value]
    numbers = [item for item in values if isinstance(item, int | float) and not isinstance(item, bool)]
    return [float(number) for number in numbers if abs(number) <= sys.float_info.max]
