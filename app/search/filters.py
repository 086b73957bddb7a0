"""Parses filters on document metadata. Shared by the vector index and the catalog, so that both match alike."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import FilterError

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class FilterReading:
    """The values that a filter matches: `year=1999` matches 1999 and "1999". `texts` has the text as given, in NFC and
    in NFD, since composed and decomposed accents look alike."""

    texts: tuple[str, ...]
    truth: bool | None = None
    number: float | None = None


def read_filter(value: str) -> FilterReading:
    """Parses a filter's text also as a truth value and as a finite number, where it spells one."""
    truth = value.lower() == "true" if value.lower() in ("true", "false") else None
    number = float(value) if _NUMBER.fullmatch(value) else None
    texts = dict.fromkeys((value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)))
    return FilterReading(tuple(texts), truth, number if number is not None and math.isfinite(number) else None)


def has_metadata(metadata: Mapping[str, object], filters: Mapping[str, str]) -> bool:
    """Whether a document's metadata match all filters, by the same rules as in the vector index."""
    return all(_matches(metadata.get(key), read_filter(value)) for key, value in filters.items())


def _matches(value: object, wanted: FilterReading) -> bool:
    if isinstance(value, list | tuple):
        return any(_matches(item, wanted) for item in value)
    if isinstance(value, bool):
        return wanted.truth is value
    if isinstance(value, int | float):
        return wanted.number is not None and float(value) == wanted.number
    return isinstance(value, str) and value in wanted.texts


def check_filters(filters: Mapping[str, str]) -> Mapping[str, str]:
    """Returns `filters` unchanged. Raises FilterError on keys and values that no metadata can have."""
    for key, value in filters.items():
        for text in (key, value):
            if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
                raise FilterError(f"The filter text {text!r} is not valid Unicode. Give it in UTF-8.")
        if not key or set(key) & set('"\\'):
            raise FilterError(f"{key!r} cannot name a metadata field: leave out double quotes and backslashes.")
    return filters
