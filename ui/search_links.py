"""The address of the search page that asks a kept search again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from app.errors import GircseError
from app.ports.catalog import LensesAndJudgements
from app.search.lenses import look_through
from app.search.value_syntax import join_values
from app.types.search import DEFAULT_MODE, MAX_EXCLUSION_CHARACTERS
from ui.choices import NO_INSTRUCTION, Choices
from ui.contract import SEARCH
from ui.search_handlers import DEFAULT_RESULTS, DUPLICATES, MAX_RESULTS, TABLES

_PASSAGE = "a passage"  # that a search resembles: its title is not kept


def search_address(catalog: LensesAndJudgements, asked: Mapping[str, Any]) -> str:
    """`asked` as `POST /api/v1/search` takes it. What only the API has, as `explain`, is left out."""
    instruction, values = asked.get("instruction"), asked.get("values")
    if asked.get("lens"):
        try:
            instruction, seen = look_through(catalog, asked["lens"], instruction, values)
            values = [str(each) for each in seen]
        except GircseError:  # the lens was deleted
            instruction, values = instruction or "", values or []
    less = [name for name, key in ((DUPLICATES, "fold_duplicates"), (TABLES, "prefer_prose")) if asked.get(key, True)]
    chosen = Choices(
        bias=asked.get("token_bias", {}),
        filters=asked.get("filters", {}),
        like=dict.fromkeys(asked.get("like", []), _PASSAGE),
        unlike=dict.fromkeys(asked.get("unlike", []), _PASSAGE),
        value=asked.get("value") or "",
        exclude=tuple(asked.get("exclude", [])),
        kept=() if asked.get("detect_negation", True) else (asked["query"].strip()[:MAX_EXCLUSION_CHARACTERS],),
    )
    limit, mode = min(asked.get("limit", DEFAULT_RESULTS), MAX_RESULTS), asked.get("mode", DEFAULT_MODE)
    parameters = {
        "q": asked["query"],
        "i": None if instruction is None else instruction or NO_INSTRUCTION,
        "v": join_values(values) if values else None,
        "k": asked.get("steps"),
        "m": None if mode == DEFAULT_MODE else mode,
        "c": asked["collection"],
        "n": None if limit == DEFAULT_RESULTS else limit,
        "x": chosen.to_text(),
        "l": None if len(less) == 2 else " ".join(less) or "-",
        "d": f"{asked['diversity']:.1g}" if asked.get("diversity") else None,
        "r": "0" if asked.get("rerank") == 0 else None,
    }
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{SEARCH.path}?{urlencode(given)}"
