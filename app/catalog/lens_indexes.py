"""Lens indexes in the catalog: their rows, the jobs that build them, and the labels to remove."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import uuid4

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from app.catalog import garbage, jobs
from app.catalog.notifications import notify
from app.catalog.sessions import CatalogPart, add_unless_taken, collection_row
from app.catalog.tables import CollectionRow, JobRow, LensIndexRow
from app.errors import NotFoundError
from app.types.documents import GarbageKind, Job, JobKind, JobPriority
from app.types.lens_indexes import LensIndex


class SqlLensIndexes(CatalogPart):
    def of_collection(self, collection: str, *, with_jobs: bool = True) -> list[LensIndex]:
        statement = select(LensIndexRow).where(LensIndexRow.collection == collection).order_by(LensIndexRow.lens)
        with self._database.reading() as session:
            rows = list(session.scalars(statement))
            latest = _latest_jobs(session, [row.id for row in rows]) if rows and with_jobs else {}
            return [_lens_index(row, latest.get(row.id)) for row in rows]

    def get(self, index_id: str) -> LensIndex:
        with self._database.reading() as session:
            row = session.get(LensIndexRow, index_id)
            if row is None:
                raise NotFoundError(f"No lens index with the id {index_id!r}; it may have been deleted.")
            return _lens_index(row, _latest_jobs(session, [row.id]).get(row.id))

    def queue(self, collection: str, lens: str, values: Sequence[str]) -> LensIndex:
        now, written = self._database.clock(), _json(values)
        with self._database.writing() as session:
            collection_row(session, collection)
            new = LensIndexRow(id=str(uuid4()), collection=collection, lens=lens, values_json=written, created_at=now)
            if add_unless_taken(session, new):
                session.flush()
            row = _locked(session, collection, lens)
            if row.values_json != written:
                row.values_json, row.edition = written, row.edition + 1
            _queue(session, row, now, priority=JobPriority.INTERACTIVE)
            return _lens_index(row, _latest_jobs(session, [row.id]).get(row.id))

    def queue_all(self, collection: str, *, is_lost: bool = False) -> None:
        with self._database.writing() as session:
            queue_again(session, LensIndexRow.collection == collection, now=self._database.clock(), is_lost=is_lost)

    def begin(self, job: Job, *, index: str, field: str) -> None:
        with self._database.writing() as session:
            row = session.get(LensIndexRow, job.document_id, with_for_update=True)
            jobs.hold_alone(session, job)
            if row is None:
                raise jobs.lease_lost(job)
            _note_place(row, f"{index}/{field}")

    def complete(self, job: Job, built: LensIndex) -> bool:
        now = self._database.clock()
        with self._database.writing() as session:
            row = session.get(LensIndexRow, job.document_id, with_for_update=True)
            held = jobs.hold_alone(session, job)
            if row is None:
                raise jobs.lease_lost(job)
            active = session.get_one(CollectionRow, row.collection).active_index
            if row.revision != built.revision or active != built.built_index:
                return False
            row.built_index, row.built_field, row.built_at = built.built_index, built.built_field, now
            row.chunks, row.seconds = built.chunks, built.seconds
            here = f"{built.built_index}/{built.built_field}"
            # Labels in other indexes are removed with those indexes; until then a roll-back needs them.
            others = [place for place in _places(row) if place != here and place.startswith(f"{built.built_index}/")]
            garbage.note(session, GarbageKind.LABELS, others, now)
            row.places_json = _json(place for place in _places(row) if place not in others)
            jobs.finish(held, now)
            return True

    def delete(self, collection: str, lens: str) -> bool:
        with self._database.writing() as session:
            collection_row(session, collection)
            of_lens = LensIndexRow.lens == lens
            return bool(forget(session, of_lens, LensIndexRow.collection == collection, now=self._database.clock()))


def lock(session: Session, collection: str) -> None:
    """Call before locking the collection, which a queued job refers to."""
    _rows(session, LensIndexRow.collection == collection)


def queue_again(session: Session, *conditions: ColumnElement[bool], now: datetime, is_lost: bool = False) -> None:
    """Queue the matching indexes for another build. `is_lost`: their labels in the vector index are gone."""
    for row in _rows(session, *conditions):
        if is_lost:
            row.built_index, row.built_field = "", ""
        _queue(session, row, now, priority=JobPriority.BULK)


def change_values(session: Session, changed: ColumnElement[bool], values: Sequence[str], now: datetime) -> None:
    """Update the indexes of a saved lens. Without values they are deleted: there is nothing to index."""
    if not values:
        forget(session, changed, now=now)
        return
    for row in _rows(session, changed, LensIndexRow.values_json != _json(values)):
        row.values_json, row.edition = _json(values), row.edition + 1
        _queue(session, row, now, priority=JobPriority.BULK)


def forget(session: Session, *conditions: ColumnElement[bool], now: datetime) -> int:
    """Delete them with their jobs, and note their labels as garbage."""
    rows = _rows(session, *conditions)
    for row in rows:
        garbage.note(session, GarbageKind.LABELS, _places(row), now)
        session.execute(delete(JobRow).where(JobRow.document_id == row.id))
        session.delete(row)
    return len(rows)


def _rows(session: Session, *conditions: ColumnElement[bool]) -> list[LensIndexRow]:
    """Locks the rows in a fixed order."""
    statement = select(LensIndexRow).where(*conditions).order_by(LensIndexRow.id).with_for_update()
    return list(session.scalars(statement))


def _locked(session: Session, collection: str, lens: str) -> LensIndexRow:
    [row] = _rows(session, LensIndexRow.collection == collection, LensIndexRow.lens == lens)
    return row


def _queue(session: Session, row: LensIndexRow, now: datetime, *, priority: JobPriority) -> None:
    """If a job is already running, it notices the new revision and runs again."""
    row.revision += 1
    session.flush()
    if jobs.open_job(session, row.id) is None:
        jobs.add_job(session, JobKind.LENS_INDEX, row.collection, row.id, now, priority=priority, created_at=now)
        notify(session)
        session.flush()


def _latest_jobs(session: Session, ids: Sequence[str]) -> dict[str, Job]:
    statement = select(JobRow).where(JobRow.document_id.in_(ids)).order_by(JobRow.created_at, JobRow.id)
    return {row.document_id: row.as_job() for row in session.scalars(statement)}


def _lens_index(row: LensIndexRow, job: Job | None) -> LensIndex:
    return LensIndex(
        id=row.id,
        collection=row.collection,
        lens=row.lens,
        values=tuple(json.loads(row.values_json)),
        created_at=row.created_at,
        edition=row.edition,
        revision=row.revision,
        built_index=row.built_index,
        built_field=row.built_field,
        built_at=row.built_at,
        chunks=row.chunks,
        seconds=row.seconds,
        job=job,
    )


def _places(row: LensIndexRow) -> list[str]:
    return list(json.loads(row.places_json))


def _note_place(row: LensIndexRow, place: str) -> None:
    if place not in _places(row):
        row.places_json = _json([*_places(row), place])


def _json(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
