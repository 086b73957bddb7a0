"""Kept requests as requests again: with the instruction and the values that their lens has by now."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from app.ports.catalog import LensesAndJudgements
from app.search.lenses import look_through
from app.types.search import SearchMode, SearchRequest
from app.types.searches import SearchQuestion

_SEQUENCES = ("like", "unlike", "exclude")
_RESOLVED = ("instruction", "values", "among")


def request_of(question: SearchQuestion, catalog: LensesAndJudgements) -> SearchRequest:
    """Raises UnknownLensError and InputError."""
    names = {each.name for each in fields(SearchRequest)} - {*_RESOLVED}
    given: dict[str, Any] = {name: value for name, value in question.items() if name in names}
    given |= {name: tuple(given[name]) for name in _SEQUENCES if name in given}
    if "mode" in given:
        given["mode"] = SearchMode(given["mode"])
    instruction, values = look_through(
        catalog, question.get("lens"), question.get("instruction"), question.get("values")
    )
    return SearchRequest(**given, instruction=instruction, values=values)
