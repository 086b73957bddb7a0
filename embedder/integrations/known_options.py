"""Refuses unknown options of LangChain's classes, and names the options that exist."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel


def known_options(owner: type[BaseModel], values: Any) -> Any:
    """Returns `values`. Raises ValueError, which pydantic shows, for a name that is no field of `owner`."""
    names = list(owner.model_fields)
    for name in values if isinstance(values, Mapping) else ():
        if name not in names:
            near = [each for each in names if name in each or each in name] or get_close_matches(name, names)
            advice = f"Did you mean {' or '.join(near)}?" if near else f"Options: {', '.join(names)}."
            raise ValueError(f"{owner.__name__} has no option {name!r}. {advice}")
    return values
