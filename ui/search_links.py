"""The search page address of a stored search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import GircseError
from app.ports.catalog import LensesAndJudgements
from app.search.lenses import resolve_lens
from app.search.value_syntax import join_values
from app.types.search import MAX_EXCLUSION_CHARACTERS
from ui.choices import Choices
from ui.search_fields import DEFAULT_RESULTS, DUPLICATES, FURTHER_OPTIONS, MAX_RESULTS, TABLES, address_of

_PASSAGE = "a passage"  # stored searches have no passage titles


def search_address(catalog: LensesAndJudgements, asked: Mapping[str, Any]) -> str:
    """`asked` is a request body of `POST /api/v1/search`. Fields without a page equivalent, such as `explain`, are
    omitted."""
    instruction, values = asked.get("instruction"), asked.get("values")
    if asked.get("lens"):
        try:
            instruction, seen = resolve_lens(catalog, asked["lens"], instruction, values)
            values = [str(each) for each in seen]
        except GircseError:  # deleted lens
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
    further = {name: asked.get(name) for name in FURTHER_OPTIONS}
    return address_of(
        {
            "query": asked["query"],
            "instruction": instruction,
            "values": join_values(values) if values else None,
            "steps": asked.get("steps"),
            "mode": asked.get("mode"),
            "collection": asked["collection"],
            "limit": min(asked.get("limit", DEFAULT_RESULTS), MAX_RESULTS),
            "choices": chosen.to_text(),
            "less": less,
            "diversity": f"{asked['diversity']:.1g}" if asked.get("diversity") else None,
            "second_look": asked.get("rerank") != 0,
            **further,
        }
    )
