"""Saved searches and search history. Each entry belongs to one person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from app.types.search import SearchRequest

MAX_SAVED_SEARCHES = 500  # per person
MAX_REQUEST_CHARACTERS = 200_000  # as JSON
MAX_SAVED_CHARACTERS = 5_000_000  # of all saved searches of a person: a list reads all of them
MAX_SEARCH_NAME_CHARACTERS = 80

SearchQuestion = Mapping[str, Any]
"""A request in the format of `POST /api/v1/search`; fields with their default value may be left out."""


@dataclass(frozen=True, slots=True)
class SavedSearch:
    id: str
    owner: str
    name: str  # unique per owner
    request: SearchQuestion
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PastSearch:
    """The latest search of one query, instruction and collection."""

    id: str
    owner: str
    request: SearchQuestion
    asked_at: datetime


def question_of(request: SearchRequest) -> SearchQuestion:
    """Converts a request to the API's format, without fields that have their default value or that authorization set
    (`among`)."""
    usual = SearchRequest(query="", collection="")
    given = {field.name: getattr(request, field.name) for field in fields(request) if field.name != "among"}
    question = {name: _plain(value) for name, value in given.items() if value != getattr(usual, name)}
    return {"query": request.query, "collection": request.collection, **question}


def _plain(value: object) -> object:
    """Converts a field to JSON types; a lens value becomes its text."""
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
