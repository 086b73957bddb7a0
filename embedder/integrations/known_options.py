"""Refuses unknown options of LangChain's classes, and names the options that exist."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

_LETTERS = 3  # fewer stand in a word by chance


def known_options(owner: type[BaseModel], values: Any) -> Any:
    """Returns `values`. Raises ValueError, which pydantic shows, for a name that is no field of `owner`."""
    names = list(owner.model_fields)
    for name in values if isinstance(values, Mapping) else ():
        if name not in names:
            near = get_close_matches(name, names) or [each for each in names if _is_part(name, each)]
            advice = f"Did you mean {' or '.join(near)}?" if near else f"Options: {', '.join(names)}."
            raise ValueError(f"{owner.__name__} has no option {name!r}. {advice}")
    return values


def _is_part(name: str, other: str) -> bool:
    """Whether one is a word of the other, between underscores, or a part of it that has three letters."""
    short, long = sorted((name, other), key=len)
    return short in (long if len(short) >= _LETTERS else long.split("_"))
