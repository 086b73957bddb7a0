"""Which points are meant: Qdrant's filters by document, and by the equality of metadata."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

from qdrant_client import models

from app.errors import FilterError

DOCUMENT_ID_FIELD = "metadata.document_id"
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def of_documents(document_ids: Sequence[str]) -> models.Filter:
    return models.Filter(
        must=[models.FieldCondition(key=DOCUMENT_ID_FIELD, match=models.MatchAny(any=list(document_ids)))]
    )


def metadata_filter(filters: Mapping[str, str]) -> models.Filter | None:
    if not filters:
        return None
    for text in itertools.chain.from_iterable(filters.items()):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise FilterError(f"The filter text {text!r} is not valid Unicode. Give it in UTF-8.")
    return models.Filter(must=[_equals(_metadata_path(key), value) for key, value in filters.items()])


def _equals(path: str, value: str) -> models.Filter:
    """The text itself, or the number or truth value that it spells: `year=1999` finds 1999 and "1999"."""
    readings: list[models.Condition] = [models.FieldCondition(key=path, match=models.MatchValue(value=value))]
    if value.lower() in ("true", "false"):
        truth = models.MatchValue(value=value.lower() == "true")
        readings.append(models.FieldCondition(key=path, match=truth))
    if _NUMBER.fullmatch(value) and math.isfinite(number := float(value)):
        # A range finds integers as well as floats.
        readings.append(models.FieldCondition(key=path, range=models.Range(gte=number, lte=number)))
    return models.Filter(should=readings)


def _metadata_path(key: str) -> str:
    if not key or set(key) & set('"\\'):
        raise FilterError(f"{key!r} cannot name a metadata field: leave out double quotes and backslashes.")
    return f"metadata.{key}" if _PLAIN_KEY.fullmatch(key) else f'metadata."{key}"'
