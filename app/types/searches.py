"""Searches that a person keeps, and those that were asked lately. Each belongs to one person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from app.types.search import SearchRequest

MAX_SAVED_SEARCHES = 500  # of one person
MAX_REQUEST_CHARACTERS = 200_000  # as JSON
MAX_SEARCH_NAME_CHARACTERS = 80

SearchQuestion = Mapping[str, Any]
"""A request as `POST /api/v1/search` takes it; what is at its default may be left out."""


@dataclass(frozen=True, slots=True)
class SavedSearch:
    id: str
    owner: str
    name: str  # one of the owner's has it
    request: SearchQuestion
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PastSearch:
    """Of one query, instruction and collection the latest."""

    id: str
    owner: str
    request: SearchQuestion
    asked_at: datetime


def question_of(request: SearchRequest) -> SearchQuestion:
    """The request as the API takes it, without what is at its default, and without what authorization adds to it."""
    usual = SearchRequest(query="", collection="")
    given = {each.name: getattr(request, each.name) for each in fields(request) if each.name != "among"}
    question = {name: _plain(value) for name, value in given.items() if value != getattr(usual, name)}
    return {"query": request.query, "collection": request.collection, **question}


def _plain(value: object) -> object:
    """As JSON has it; a value of a lens as it is written."""
    if isinstance(value, tuple):
        return [str(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
