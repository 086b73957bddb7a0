"""Standing searches in the catalog and their matches. The transaction that makes new chunks visible also adds their
matches, so a crash loses both or neither.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

from sqlalchemy import Select, TableClause, delete, func, select, update
from sqlalchemy.orm import Session

from app.catalog.search_tables import SavedSearchRow
from app.catalog.sessions import CatalogPart, again_if_taken, collection_row, insert_into
from app.catalog.standing_tables import StandingMatchRow, StandingSearchRow, kept_vector
from app.catalog.tables import ChunkRow, CollectionRow, DocumentRow
from app.errors import NotFoundError, StandingChangedError
from app.types.documents import DocumentState
from app.types.standing import MAX_KEPT_MATCHES, KeptMatch, PreparedSearch, StandingSearch, Told, Watch

NOT_DELIVERED = ""  # found before the channel was set up
_ROWS_AT_A_TIME = 500
_PREPARED = select(StandingSearchRow, SavedSearchRow.request_json).join(SavedSearchRow)


class SqlStanding(CatalogPart):
    """Standing searches and their matches."""

    @again_if_taken
    def watch(self, owner: str, search_id: str, watch: Watch) -> StandingSearch:
        """Watch from now on. Raises NotFoundError and UnknownCollectionError."""
        with self._database.writing() as session:
            saved = session.scalar(
                select(SavedSearchRow).where(SavedSearchRow.owner == owner, SavedSearchRow.id == search_id)
            )
            if saved is None:
                raise NotFoundError(f"You have no saved search with the id {search_id!r}.")
            collection = str(json.loads(saved.request_json)["collection"])
            row = session.get(StandingSearchRow, search_id, with_for_update=True)
            if row is None:
                row = StandingSearchRow(
                    search_id=search_id,
                    owner=owner,
                    since=self._database.clock(),
                    feed_token=secrets.token_urlsafe(24),
                    webhook_secret=f"whsec_{b64encode(secrets.token_bytes(24)).decode()}",
                )
                session.add(row)
            else:
                _begin_channels(session, row, watch)
            _set(row, collection_row(session, collection).name, watch)
            session.flush()
            change_version(session, collection)
            return row.as_standing(saved, _unseen(session, search_id))

    def unwatch(self, owner: str, search_id: str) -> None:
        with self._database.writing() as session:
            row, _ = _standing(session, owner, search_id)
            change_version(session, row.collection)
            session.delete(row)

    def renew_feed(self, owner: str, search_id: str) -> StandingSearch:
        with self._database.writing() as session:
            row, saved = _standing(session, owner, search_id)
            row.feed_token = secrets.token_urlsafe(24)
            return row.as_standing(saved, _unseen(session, search_id))

    def get(self, owner: str, search_id: str) -> StandingSearch:
        with self._database.reading() as session:
            row, saved = _standing(session, owner, search_id)
            return row.as_standing(saved, _unseen(session, search_id))

    def of_owner(self, owner: str) -> list[StandingSearch]:
        """Sorted by name."""
        unseen = (
            select(func.count())
            .select_from(StandingMatchRow)
            .join(DocumentRow, DocumentRow.id == StandingMatchRow.document_id)
            .where(
                StandingMatchRow.search_id == StandingSearchRow.search_id,
                ~StandingMatchRow.is_seen,
                DocumentRow.state != DocumentState.DELETING,
            )
            .correlate(StandingSearchRow)
            .scalar_subquery()
        )
        statement = select(StandingSearchRow, SavedSearchRow, unseen).join(SavedSearchRow)
        statement = statement.where(StandingSearchRow.owner == owner).order_by(SavedSearchRow.name)
        with self._database.reading() as session:
            return [row.as_standing(saved, count) for row, saved, count in session.execute(statement)]

    def of_feed(self, token: str) -> StandingSearch:
        """Raises NotFoundError."""
        statement = select(StandingSearchRow, SavedSearchRow).join(SavedSearchRow)
        with self._database.reading() as session:
            pair = session.execute(statement.where(StandingSearchRow.feed_token == token)).first()
            if pair is None:
                raise NotFoundError("No feed at this address; it may have been renewed.")
            return pair[0].as_standing(pair[1], _unseen(session, pair[0].search_id))

    # Queries of ingestion

    def version(self, collection: str) -> int:
        """A number that changes whenever a standing search of the collection begins, changes or ends; 0 if there
        never was one.
        """
        statement = select(CollectionRow.standing_version).where(CollectionRow.name == collection)
        with self._database.reading() as session:
            return session.scalar(statement) or 0

    def in_collection(self, collection: str) -> tuple[int, list[PreparedSearch]]:
        version = select(CollectionRow.standing_version).where(CollectionRow.name == collection)
        statement = _PREPARED.where(StandingSearchRow.collection == collection).order_by(StandingSearchRow.search_id)
        with self._database.reading() as session:
            # Read the version first, so that `tell` detects any later change.
            current = session.scalar(version) or 0
            return current, [row.as_prepared(request) for row, request in session.execute(statement)]

    def prepare(self, changes: Sequence[tuple[PreparedSearch, PreparedSearch]]) -> dict[str, PreparedSearch]:
        """Save the second search of each pair if the stored one still equals the first. Returns the stored searches
        by id, which another worker may have prepared: all workers must use the same scale.
        """
        with self._database.writing() as session:
            for before, after in changes:
                session.execute(
                    update(StandingSearchRow)
                    .where(
                        StandingSearchRow.search_id == before.id,
                        StandingSearchRow.space == before.space,
                        StandingSearchRow.points == before.points,
                    )
                    .values(
                        space=after.space,
                        vector=kept_vector(after.vector),
                        median=after.median,
                        deviation=after.deviation,
                        points=after.points,
                        error=after.error,
                    )
                )
            statement = _PREPARED.where(StandingSearchRow.search_id.in_([before.id for before, _ in changes]))
            return {row.search_id: row.as_prepared(request) for row, request in session.execute(statement)}

    def known_chunks(self, index: str, document_ids: Sequence[str]) -> set[str]:
        """Ids of the chunks that the index already holds of these documents."""
        statement = select(ChunkRow.id).where(ChunkRow.index_name == index, ChunkRow.document_id.in_(document_ids))
        with self._database.reading() as session:
            return set(session.scalars(statement)) if document_ids else set()

    # Matches

    def matches(
        self, owner: str, search_id: str, *, unseen_only: bool = False, limit: int = 100, offset: int = 0
    ) -> list[KeptMatch]:
        """Newest first, without matches in documents that are being deleted."""
        statement = _present_matches(search_id)
        if unseen_only:
            statement = statement.where(~StandingMatchRow.is_seen)
        order = (StandingMatchRow.matched_at.desc(), StandingMatchRow.score.desc(), StandingMatchRow.chunk_id)
        with self._database.reading() as session:
            _standing(session, owner, search_id)
            rows = session.scalars(statement.order_by(*order).limit(limit).offset(offset))
            return [row.as_kept() for row in rows]

    def mark_seen(self, owner: str, search_id: str, chunk_ids: Sequence[str] | None = None) -> int:
        statement = update(StandingMatchRow).where(StandingMatchRow.search_id == search_id, ~StandingMatchRow.is_seen)
        if chunk_ids is not None:
            statement = statement.where(StandingMatchRow.chunk_id.in_(chunk_ids))
        with self._database.writing() as session:
            _standing(session, owner, search_id)
            marked = session.scalars(statement.values(is_seen=True).returning(StandingMatchRow.chunk_id)).all()
            _trim(session, search_id)
            return len(marked)


def tell(session: Session, documents: Sequence[DocumentRow], index: str, told: Told | None, now: datetime) -> None:
    """Record the matches that standing searches found in these just completed documents.

    Raises StandingChangedError if the collection's standing searches changed since `told` was computed. The row stays
    locked until commit, so a search that starts watching later gets every chunk that becomes visible after it.
    """
    if told is None:
        return
    collection = documents[0].collection
    version = select(CollectionRow.standing_version).where(CollectionRow.name == collection)
    if session.scalar(version.with_for_update(read=True)) != told.version:
        raise StandingChangedError(f"The standing searches of {collection!r} changed.")
    ids = [document.id for document in documents]
    gone = ~select(ChunkRow.id).where(ChunkRow.index_name == index, ChunkRow.id == StandingMatchRow.chunk_id).exists()
    if told.version:
        session.execute(
            delete(StandingMatchRow)
            .where(StandingMatchRow.document_id.in_(ids), gone)
            .execution_options(synchronize_session=False)
        )
    held = set(ids)
    rows = [
        {
            "search_id": match.search_id,
            "chunk_id": match.chunk_id,
            "document_id": match.document_id,
            "score": match.score,
            "match": match.match,
            "matched_at": now,
            "is_seen": False,
        }
        for match in told.matches
        if match.document_id in held
    ]
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        # Insert through the table: mapped rows take four times as long.
        insert = insert_into(session, cast("TableClause", StandingMatchRow.__table__)).on_conflict_do_nothing()
        session.execute(insert, rows[start : start + _ROWS_AT_A_TIME])


def follow_saved(session: Session, row: SavedSearchRow) -> None:
    """After a saved search's request was replaced: prepare it again, for the collection that it now names."""
    standing = session.get(StandingSearchRow, row.id)
    if standing is None:
        return
    collection = str(json.loads(row.request_json)["collection"])
    change_version(session, standing.collection)
    if session.get(CollectionRow, collection) is None:  # the request names all collections, or a deleted one
        session.delete(standing)
        return
    standing.collection, standing.vector, standing.space = collection, "", ""
    session.flush()
    change_version(session, collection)


def stop_watching(session: Session, owner: str, search_id: str | None = None) -> None:
    """Call before deleting saved searches, one or all of a person, so that ingestion no longer reports to them."""
    statement = select(StandingSearchRow).where(StandingSearchRow.owner == owner)
    if search_id is not None:
        statement = statement.where(StandingSearchRow.search_id == search_id)
    rows = session.scalars(statement).all()
    for collection in sorted({row.collection for row in rows}):
        change_version(session, collection)
    for row in rows:
        session.delete(row)
    session.flush()


def change_version(session: Session, collection: str) -> None:
    """Waits for completions that still use the previous version."""
    session.execute(
        update(CollectionRow)
        .where(CollectionRow.name == collection)
        .values(standing_version=CollectionRow.standing_version + 1)
        .execution_options(synchronize_session=False)
    )


def present_matches_of(search_id: str) -> Select[StandingMatchRow]:
    return _present_matches(search_id)


def _present_matches(search_id: str) -> Select[StandingMatchRow]:
    """Matches in documents that are not being deleted."""
    return (
        select(StandingMatchRow)
        .join(DocumentRow, DocumentRow.id == StandingMatchRow.document_id)
        .where(StandingMatchRow.search_id == search_id, DocumentRow.state != DocumentState.DELETING)
    )


def _set(row: StandingSearchRow, collection: str, watch: Watch) -> None:
    if row.collection is not None and row.collection != collection:
        row.vector = ""
    row.collection, row.strength, row.webhook, row.alert = collection, watch.strength, watch.webhook, watch.alert
    row.space, row.error = "", None  # prepare again


def _begin_channels(session: Session, row: StandingSearchRow, watch: Watch) -> None:
    """A new channel reports only matches found from now on."""
    for is_new, column in (
        (row.webhook is None and watch.webhook, StandingMatchRow.webhook_delivery),
        (row.alert is None and watch.alert, StandingMatchRow.alert_delivery),
    ):
        if is_new:
            session.execute(
                update(StandingMatchRow)
                .where(StandingMatchRow.search_id == row.search_id, column.is_(None))
                .values({column: NOT_DELIVERED})
                .execution_options(synchronize_session=False)
            )


def _standing(session: Session, owner: str, search_id: str) -> tuple[StandingSearchRow, SavedSearchRow]:
    statement = select(StandingSearchRow, SavedSearchRow).join(SavedSearchRow)
    statement = statement.where(StandingSearchRow.owner == owner, StandingSearchRow.search_id == search_id)
    pair = session.execute(statement).first()
    if pair is None:
        raise NotFoundError(f"You have no monitored search with the id {search_id!r}.")
    return pair[0], pair[1]


def _unseen(session: Session, search_id: str) -> int:
    statement = _present_matches(search_id).where(~StandingMatchRow.is_seen).subquery()
    return session.scalar(select(func.count()).select_from(statement)) or 0


def _trim(session: Session, search_id: str) -> None:
    """Delete the oldest seen matches beyond the number kept."""
    kept = select(StandingMatchRow.chunk_id).where(StandingMatchRow.search_id == search_id)
    old = kept.order_by(StandingMatchRow.matched_at.desc(), StandingMatchRow.chunk_id).offset(MAX_KEPT_MATCHES)
    ids = list(_pages(session.scalars(old.limit(10_000)).all()))
    for page in ids:
        statement = delete(StandingMatchRow).where(
            StandingMatchRow.search_id == search_id, StandingMatchRow.is_seen, StandingMatchRow.chunk_id.in_(page)
        )
        session.execute(statement)


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _ROWS_AT_A_TIME):
        yield ids[start : start + _ROWS_AT_A_TIME]
