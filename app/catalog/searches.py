"""Saved and past searches of each person in the catalog."""

from __future__ import annotations

import json
from uuid import UUID, uuid4, uuid5

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from app.catalog.search_tables import PastSearchRow, SavedSearchRow
from app.catalog.sessions import CatalogPart, again_if_taken, insert_into
from app.catalog.standing import follow_saved, stop_watching
from app.errors import ConflictError, NotFoundError
from app.types.searches import MAX_SAVED_CHARACTERS, MAX_SAVED_SEARCHES, PastSearch, SavedSearch, SearchQuestion

_PAST = UUID("0b1f7f0a-2f7d-5f3f-8a1c-6f1f6f0e4a52")


class SqlSearches(CatalogPart):
    """Saved and past searches. Each method is limited to the searches of one owner."""

    def saved_searches(self, owner: str) -> list[SavedSearch]:
        """Sorted by name."""
        with self._database.reading() as session:
            return [row.as_saved_search() for row in session.scalars(_saved_of(owner).order_by(SavedSearchRow.name))]

    def saved_search(self, owner: str, search_id: str) -> SavedSearch:
        """Raises NotFoundError."""
        with self._database.reading() as session:
            return _saved(session, owner, search_id).as_saved_search()

    @again_if_taken
    def save_search(self, owner: str, name: str, request: SearchQuestion) -> SavedSearch:
        """Save a search, or replace the request of the one with this name. Raises ConflictError at
        MAX_SAVED_SEARCHES.
        """
        with self._database.writing() as session:
            row = session.scalar(_saved_of(owner).where(SavedSearchRow.name == name))
            if row is None:
                count = session.scalar(select(func.count()).where(SavedSearchRow.owner == owner)) or 0
                if count >= MAX_SAVED_SEARCHES:
                    raise ConflictError(f"You have {count:,} saved searches, the maximum; delete one first.")
                row = SavedSearchRow(id=str(uuid4()), owner=owner, name=name, created_at=self._database.clock())
                session.add(row)
            is_changed = row.request_json is not None and json.loads(row.request_json) != request
            written = json.dumps(request)
            _require_room(session, row, written)
            row.request_json = written
            session.flush()
            if is_changed:
                follow_saved(session, row)
            return row.as_saved_search()

    @again_if_taken
    def rename_search(self, owner: str, search_id: str, name: str) -> SavedSearch:
        """Raises NotFoundError, and ConflictError if another search of the owner has this name."""
        with self._database.writing() as session:
            row = _saved(session, owner, search_id)
            other = session.scalar(_saved_of(owner).where(SavedSearchRow.name == name, SavedSearchRow.id != search_id))
            if other is not None:
                raise ConflictError(f"You have another saved search named {name!r}; choose another name.")
            row.name = name
            session.flush()
            return row.as_saved_search()

    def delete_saved_search(self, owner: str, search_id: str) -> None:
        """Raises NotFoundError."""
        with self._database.writing() as session:
            row = _saved(session, owner, search_id)
            stop_watching(session, owner, search_id)
            session.delete(row)

    def past_searches(self, owner: str, *, limit: int) -> list[PastSearch]:
        """Newest first."""
        newest = select(PastSearchRow).where(PastSearchRow.owner == owner).order_by(PastSearchRow.asked_at.desc())
        with self._database.reading() as session:
            return [row.as_past_search() for row in session.scalars(newest.limit(limit))]

    def record_search(self, owner: str, request: SearchQuestion, *, keep: int) -> None:
        """Replaces the entry with the same query, instruction and collection, and deletes the oldest beyond `keep`."""
        key = json.dumps([owner, *(request.get(name) for name in ("query", "instruction", "collection"))])
        with self._database.writing() as session:
            insert = insert_into(session, PastSearchRow)
            replaced = {name: insert.excluded[name] for name in ("request_json", "asked_at")}
            statement = insert.on_conflict_do_update(index_elements=["id"], set_=replaced)
            values = {"id": str(uuid5(_PAST, key)), "owner": owner, "request_json": json.dumps(request)}
            session.execute(statement, [{**values, "asked_at": self._database.clock()}])
            newest = select(PastSearchRow.id).where(PastSearchRow.owner == owner)
            old = newest.order_by(PastSearchRow.asked_at.desc(), PastSearchRow.id).offset(keep)
            ids = session.scalars(old.limit(1_000)).all()
            session.execute(delete(PastSearchRow).where(PastSearchRow.id.in_(ids)))

    def forget_searches(self, owner: str, search_id: str | None = None) -> int:
        """Delete one past search, or all. Returns the number of deleted searches."""
        statement = delete(PastSearchRow).where(PastSearchRow.owner == owner)
        if search_id is not None:
            statement = statement.where(PastSearchRow.id == search_id)
        with self._database.writing() as session:
            return len(session.scalars(statement.returning(PastSearchRow.id)).all())


def delete_searches_of(session: Session, owner: str) -> None:
    stop_watching(session, owner)
    for table in (SavedSearchRow, PastSearchRow):
        session.execute(delete(table).where(table.owner == owner))


def _require_room(session: Session, row: SavedSearchRow, written: str) -> None:
    """Raises ConflictError, unless the search replaces one that is as long."""
    if row.request_json is not None and len(written) <= len(row.request_json):
        return
    others = select(func.coalesce(func.sum(func.length(SavedSearchRow.request_json)), 0)).where(
        SavedSearchRow.owner == row.owner, SavedSearchRow.id != row.id
    )
    characters = (session.scalar(others) or 0) + len(written)
    if characters > MAX_SAVED_CHARACTERS:
        raise ConflictError(
            f"Your saved searches would have {characters:,} characters, of at most {MAX_SAVED_CHARACTERS:,}; delete "
            "one first."
        )


def _saved_of(owner: str) -> Select[SavedSearchRow]:
    return select(SavedSearchRow).where(SavedSearchRow.owner == owner)


def _saved(session: Session, owner: str, search_id: str) -> SavedSearchRow:
    row = session.scalar(_saved_of(owner).where(SavedSearchRow.id == search_id))
    if row is None:
        raise NotFoundError(f"You have no saved search with the id {search_id!r}.")
    return row
