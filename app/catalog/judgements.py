"""Lenses and judgements in the catalog."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict
from uuid import UUID, uuid5

from sqlalchemy import ColumnElement, delete, func, insert, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from app.catalog import lens_indexes
from app.catalog.sessions import CatalogPart, again_if_taken, collection_row
from app.catalog.tables import DocumentRow, JudgementRow, LensIndexRow, LensRow
from app.errors import ConflictError, UnknownDocumentError, UnknownLensError
from app.types.documents import Judgement, Lens
from app.types.evaluation import JudgementSource

MAX_JUDGEMENTS = 10_000  # per person and collection
MAX_JUDGED_CHARACTERS = 10_000_000  # of their queries and instructions
# Of all users together: every page with a list of lenses reads all of them.
MAX_LENSES = 500
MAX_VALUE_CHARACTERS = 2_000_000  # of the values of all lenses, as JSON
_PAGE = 500
_JUDGEMENTS = UUID("6a0b1f0e-93d5-5a52-9c53-0d9b2b7f4d11")


class SqlLensesAndJudgements(CatalogPart):
    def lenses(self) -> list[Lens]:
        with self._database.reading() as session:
            return [row.as_lens() for row in session.scalars(select(LensRow).order_by(LensRow.name))]

    def lens(self, name: str) -> Lens:
        with self._database.reading() as session:
            return _lens_row(session, name).as_lens()

    @again_if_taken
    def save_lens(self, lens: Lens, *, indexed_in: Container[str] | None = None) -> None:
        with self._database.writing() as session:
            present = session.get(LensRow, lens.name, with_for_update=True)  # concurrent saves: one wins completely
            since = self._database.clock() if present is None else present.created_at
            facts = asdict(lens)
            values = json.dumps(facts.pop("values"), ensure_ascii=False)
            _require_room_for_lens(session, lens.name, values, present)
            session.merge(LensRow(**facts, values_json=values, created_at=since))
            changed = _indexes_of(session, lens.name, indexed_in)
            lens_indexes.change_values(session, changed, lens.values, self._database.clock())

    def delete_lens(self, name: str, *, indexed_in: Container[str] | None = None) -> None:
        with self._database.writing() as session:
            session.delete(_lens_row(session, name))
            lens_indexes.forget(session, _indexes_of(session, name, indexed_in), now=self._database.clock())

    @again_if_taken  # the document may have been deleted meanwhile
    def save_judgement(self, judgement: Judgement) -> Judgement:
        with self._database.writing() as session:
            document = session.get(DocumentRow, judgement.document_id)
            if document is None:
                raise UnknownDocumentError(f"No document with the id {judgement.document_id!r} to judge.")
            values = judgement_values(judgement)
            if session.get(JudgementRow, values["id"]) is None:
                _require_room(session, document.collection, judgement)
            session.merge(JudgementRow(**values))
        return judgement

    def delete_judgement(self, judgement: Judgement) -> bool:
        with self._database.writing() as session:
            row = session.get(JudgementRow, judgement_values(judgement)["id"])
            if row is None:
                return False
            session.delete(row)
            return True

    def judgement_pages(self, collection: str) -> Iterator[list[Judgement]]:
        after = ("", "")
        key = tuple_(JudgementRow.document_id, JudgementRow.id)
        while True:
            statement = (
                select(JudgementRow)
                .join(DocumentRow, DocumentRow.id == JudgementRow.document_id)
                .where(DocumentRow.collection == collection, key > after)
                .order_by(JudgementRow.document_id, JudgementRow.id)
                .limit(_PAGE)
            )
            with self._database.reading() as session:
                rows = list(session.scalars(statement))
                page = [row.as_judgement() for row in rows]
            if not page:
                return
            yield page
            after = (rows[-1].document_id, rows[-1].id)

    def judgements(self, collection: str, *, limit: int, offset: int = 0) -> list[Judgement]:
        statement = (
            select(JudgementRow)
            .join(DocumentRow, DocumentRow.id == JudgementRow.document_id)
            .where(DocumentRow.collection == collection)
            .order_by(JudgementRow.document_id, JudgementRow.id)
            .limit(limit)
            .offset(offset)
        )
        with self._database.reading() as session:
            return [row.as_judgement() for row in session.scalars(statement)]

    def replace_judgements(self, collection: str, judged_by: str, judgements: Sequence[Judgement]) -> int:
        rows = list({str(row["id"]): row for row in map(judgement_values, judgements)}.values())
        of_collection = select(DocumentRow.id).where(DocumentRow.collection == collection)
        try:
            with self._database.writing() as session:
                collection_row(session, collection)
                former = JudgementRow.judged_by == judged_by, JudgementRow.document_id.in_(of_collection)
                session.execute(delete(JudgementRow).where(*former))
                _require_documents(session, collection, {str(row["document_id"]) for row in rows})
                if rows:
                    session.execute(insert(JudgementRow), rows)
        except IntegrityError as error:
            raise _documents_changed(collection) from error
        return len(rows)

    def judgement_sources(self, collection: str) -> list[JudgementSource]:
        judged_queries = (
            select(JudgementRow.judged_by, JudgementRow.query, JudgementRow.instruction, func.count().label("said"))
            .join(DocumentRow, DocumentRow.id == JudgementRow.document_id)
            .where(DocumentRow.collection == collection)
            .group_by(JudgementRow.judged_by, JudgementRow.query, JudgementRow.instruction)
            .subquery()
        )
        statement = (
            select(judged_queries.c.judged_by, func.count(), func.sum(judged_queries.c.said))
            .group_by(judged_queries.c.judged_by)
            .order_by(judged_queries.c.judged_by)
        )
        with self._database.reading() as session:
            return [JudgementSource(by, queries, int(said)) for by, queries, said in session.execute(statement)]

    def counterparts(self, document_ids: Sequence[str], collection: str) -> dict[str, str]:
        pairs: dict[str, str] = {}
        with self._database.reading() as session:
            for start in range(0, len(document_ids), _PAGE):
                page = document_ids[start : start + _PAGE]
                # If several documents match, the last pair wins: the smallest id.
                for column in (DocumentRow.content_hash, DocumentRow.uri):
                    pairs |= _pairs_by(session, page, collection, column.key)
        return pairs


def _require_room_for_lens(session: Session, name: str, values: str, present: LensRow | None) -> None:
    """Raises ConflictError, unless the lens replaces one that is as large."""
    if present is not None and len(values) <= len(present.values_json):
        return
    others = select(func.count(), func.coalesce(func.sum(func.length(LensRow.values_json)), 0))
    count, characters = session.execute(others.where(LensRow.name != name)).one()
    if present is None and count >= MAX_LENSES:
        raise ConflictError(f"There are {count:,} saved lenses, the maximum; delete one first.")
    if characters + len(values) > MAX_VALUE_CHARACTERS:
        raise ConflictError(
            f"The values of all saved lenses would have {characters + len(values):,} characters, of at most "
            f"{MAX_VALUE_CHARACTERS:,}; delete a lens, or save fewer values."
        )


def _indexes_of(session: Session, lens: str, collections: Container[str] | None) -> ColumnElement[bool]:
    """The indexes of the lens that a change of it changes, too: those in these collections (None: in all)."""
    if collections is None:
        return LensIndexRow.lens == lens
    rows = session.execute(select(LensIndexRow.id, LensIndexRow.collection).where(LensIndexRow.lens == lens))
    return LensIndexRow.id.in_([index for index, collection in rows if collection in collections])


def _require_room(session: Session, collection: str, judgement: Judgement) -> None:
    size = func.length(JudgementRow.query) + func.length(JudgementRow.instruction)
    said = select(func.count(), func.coalesce(func.sum(size), 0)).select_from(JudgementRow)
    said = said.join(DocumentRow, DocumentRow.id == JudgementRow.document_id)
    own = DocumentRow.collection == collection, JudgementRow.judged_by == judgement.judged_by
    count, characters = session.execute(said.where(*own)).one()
    characters += len(judgement.query) + len(judgement.instruction)
    if count >= MAX_JUDGEMENTS or characters > MAX_JUDGED_CHARACTERS:
        raise ConflictError(
            f"{judgement.judged_by} has given {count:,} judgements in {collection!r}, the maximum; remove some, "
            "or import them as a file."
        )


def judgement_values(judgement: Judgement) -> dict[str, object]:
    key = json.dumps([judgement.document_id, judgement.query, judgement.instruction, judgement.judged_by])
    return {"id": str(uuid5(_JUDGEMENTS, key)), **asdict(judgement)}


def _lens_row(session: Session, name: str) -> LensRow:
    row = session.get(LensRow, name)
    if row is None:
        raise UnknownLensError(name, list(session.scalars(select(LensRow.name).order_by(LensRow.name))))
    return row


def _pairs_by(session: Session, ids: Sequence[str], collection: str, attribute: str) -> dict[str, str]:
    other = aliased(DocumentRow)
    statement = (
        select(DocumentRow.id, other.id)
        .join(other, getattr(other, attribute) == getattr(DocumentRow, attribute))
        .where(DocumentRow.id.in_(ids), other.collection == collection)
        .order_by(DocumentRow.id, other.id.desc())
    )
    return {mine: counterpart for mine, counterpart, *_ in session.execute(statement)}


def _require_documents(session: Session, collection: str, ids: set[str]) -> None:
    wanted = sorted(ids)
    for start in range(0, len(wanted), _PAGE):
        page = wanted[start : start + _PAGE]
        there = select(func.count()).where(DocumentRow.id.in_(page), DocumentRow.collection == collection)
        if session.scalar(there) != len(page):
            raise _documents_changed(collection)


def _documents_changed(collection: str) -> ConflictError:
    return ConflictError(
        f"Some of the judged documents are not in the collection {collection!r} (any more); try again."
    )
