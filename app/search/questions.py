"""Turns saved searches back into requests, with the current instruction and values of their lens."""

from __future__ import annotations

from app.ports.catalog import LensesAndJudgements
from app.search.lenses import resolve_lens
from app.types.search import SearchRequest, read_request
from app.types.searches import SearchQuestion


def request_of(question: SearchQuestion, catalog: LensesAndJudgements) -> SearchRequest:
    """Raises UnknownLensError and InputError."""
    instruction, values = resolve_lens(
        catalog, question.get("lens"), question.get("instruction"), question.get("values")
    )
    return read_request(question, instruction=instruction, values=values)
