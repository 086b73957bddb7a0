"""What people keep in the catalog: lenses, and judgements of documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from uuid import UUID, uuid5

from sqlalchemy import select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.catalog.sessions import Sessions
from app.catalog.tables import DocumentRow, JudgementRow, LensRow
from app.errors import UnknownDocumentError, UnknownLensError
from app.types import Judgement, Lens

_PAGE = 500
_JUDGEMENTS = UUID("6a0b1f0e-93d5-5a52-9c53-0d9b2b7f4d11")


class Opinions(Sessions):
    def lenses(self) -> list[Lens]:
        with self._session(self._engine) as session:
            return [row.as_lens() for row in session.scalars(select(LensRow).order_by(LensRow.name))]

    def lens(self, name: str) -> Lens:
        with self._session(self._engine) as session:
            return _lens_row(session, name).as_lens()

    def save_lens(self, lens: Lens) -> None:
        with self._session(self._writer) as session:
            present = session.get(LensRow, lens.name)
            since = self._clock() if present is None else present.created_at
            session.merge(LensRow(**asdict(lens), created_at=since))

    def delete_lens(self, name: str) -> None:
        with self._session(self._writer) as session:
            session.delete(_lens_row(session, name))

    def save_judgement(self, judgement: Judgement) -> None:
        try:
            self._merge(judgement)
        except IntegrityError:  # the same person was quicker, or the document has just gone
            self._merge(judgement)

    def _merge(self, judgement: Judgement) -> None:
        with self._session(self._writer) as session:
            if session.get(DocumentRow, judgement.document_id) is None:
                raise UnknownDocumentError(f"No document with the id {judgement.document_id!r}: it cannot be judged.")
            session.merge(JudgementRow(**judgement_values(judgement)))

    def delete_judgement(self, judgement: Judgement) -> bool:
        with self._session(self._writer) as session:
            found = session.get(JudgementRow, judgement_values(judgement)["id"])
            if found is None:
                return False
            session.delete(found)
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
            with self._session(self._engine) as session:
                rows = list(session.scalars(statement))
                page = [row.as_judgement() for row in rows]
            if not page:
                return
            yield page
            after = (rows[-1].document_id, rows[-1].id)


def judgement_values(judgement: Judgement) -> dict[str, object]:
    key = json.dumps([judgement.document_id, judgement.query, judgement.instruction, judgement.judged_by])
    return {"id": str(uuid5(_JUDGEMENTS, key)), **asdict(judgement)}


def _lens_row(session: Session, name: str) -> LensRow:
    row = session.get(LensRow, name)
    if row is None:
        raise UnknownLensError(name, list(session.scalars(select(LensRow.name).order_by(LensRow.name))))
    return row
