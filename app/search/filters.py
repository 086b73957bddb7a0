"""How a filter on document metadata is read, wherever it is applied: in the vector index, or in the catalog."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import FilterError

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class FilterReading:
    """Whatever equals one of these is found: `year=1999` finds 1999 and "1999"."""

    text: str
    truth: bool | None = None
    number: float | None = None


def read_filter(value: str) -> FilterReading:
    """The text itself, and the number or truth value that it spells."""
    truth = value.lower() == "true" if value.lower() in ("true", "false") else None
    number = float(value) if _NUMBER.fullmatch(value) else None
    return FilterReading(value, truth, number if number is not None and math.isfinite(number) else None)


def check_filters(filters: Mapping[str, str]) -> Mapping[str, str]:
    """`filters` themselves. Raises FilterError on keys and values that no metadata can have."""
    for key, value in filters.items():
        for text in (key, value):
            if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
                raise FilterError(f"The filter text {text!r} is not valid Unicode. Give it in UTF-8.")
        if not key or set(key) & set('"\\'):
            raise FilterError(f"{key!r} cannot name a metadata field: leave out double quotes and backslashes.")
    return filters
