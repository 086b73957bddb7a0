"""Validates answer requests before the search."""

from __future__ import annotations

from app.errors import InputError
from app.search.request_checks import check_query
from app.types.answers import (
    MAX_PASSAGES,
    MAX_QUESTION_CHARACTERS,
    MAX_TURN_CHARACTERS,
    MAX_TURNS,
    AnswerRequest,
)
from app.types.documents import require_text


def check_answer_request(request: AnswerRequest) -> None:
    """Raises InputError. The search checks the filters and the collection."""
    check_query(request.question)
    _check_length("question", request.question, MAX_QUESTION_CHARACTERS)
    if not 1 <= request.passages <= MAX_PASSAGES:
        raise InputError(f"passages must be 1 to {MAX_PASSAGES}, not {request.passages}.")
    if len(request.turns) > MAX_TURNS:
        raise InputError(f"At most {MAX_TURNS} earlier questions can be given, not {len(request.turns)}.")
    for turn in request.turns:
        for name, text in (("earlier question", turn.question), ("earlier answer", turn.answer)):
            _check_length(name, require_text(text, name=name), MAX_TURN_CHARACTERS)


def _check_length(name: str, text: str, most: int) -> None:
    if len(text) > most:
        raise InputError(f"The {name} has {len(text):,} characters; at most {most:,} are allowed.")
