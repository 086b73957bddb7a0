"""Tables of saved and past searches, with conversion of rows to values."""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.tables import Table
from app.types.searches import PastSearch, SavedSearch


class SavedSearchRow(Table):
    """A saved search. `owner` is no foreign key, because the operator has no account."""

    __tablename__ = "saved_search"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    name: Mapped[str]
    request_json: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]

    def as_saved_search(self) -> SavedSearch:
        return SavedSearch(self.id, self.owner, self.name, json.loads(self.request_json), self.created_at)


class PastSearchRow(Table):
    """The id is a hash of owner, query, instruction and collection, so each combination has one row."""

    __tablename__ = "past_search"
    __table_args__ = (Index("ix_past_search_owner_asked_at", "owner", "asked_at"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    request_json: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime]

    def as_past_search(self) -> PastSearch:
        return PastSearch(self.id, self.owner, json.loads(self.request_json), self.asked_at)
