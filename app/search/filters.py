"""How a filter on document metadata is read, wherever it is applied: in the vector index, or in the catalog."""

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
    """Whatever equals one of these is found: `year=1999` finds 1999 and "1999". `texts` are the spellings of Unicode
    that look alike: letters with their accents, or each followed by its accents."""

    texts: tuple[str, ...]
    truth: bool | None = None
    number: float | None = None


def read_filter(value: str) -> FilterReading:
    """The text itself, and the number or truth value that it spells."""
    truth = value.lower() == "true" if value.lower() in ("true", "false") else None
    number = float(value) if _NUMBER.fullmatch(value) else None
    texts = dict.fromkeys((value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)))
    return FilterReading(tuple(texts), truth, number if number is not None and math.isfinite(number) else None)


def has_metadata(metadata: Mapping[str, object], filters: Mapping[str, str]) -> bool:
    """Whether a document's metadata are as a search with these filters wants them, as the vector index decides it."""
    return all(_is_found(metadata.get(key), read_filter(value)) for key, value in filters.items())


def _is_found(value: object, wanted: FilterReading) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_found(each, wanted) for each in value)
    if isinstance(value, bool):
        return wanted.truth is value
    if isinstance(value, int | float):
        return wanted.number is not None and float(value) == wanted.number
    return isinstance(value, str) and value in wanted.texts


def check_filters(filters: Mapping[str, str]) -> Mapping[str, str]:
    """`filters` themselves. Raises FilterError on keys and values that no metadata can have."""
    for key, value in filters.items():
        for text in (key, value):
            if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
                raise FilterError(f"The filter text {text!r} is not valid Unicode. Give it in UTF-8.")
        if not key or set(key) & set('"\\'):
            raise FilterError(f"{key!r} cannot name a metadata field: leave out double quotes and backslashes.")
    return filters
