"""Tuned leg weights per collection, with their history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from app.catalog.sessions import CatalogPart, collection_row
from app.catalog.weight_tables import WeightTuningRow
from app.types.search import Leg
from app.types.weights import MAX_TUNINGS, WeightTuning


class SqlWeights(CatalogPart):
    def applied(self, collection: str) -> Mapping[Leg, float] | None:
        with self._database.reading() as session:
            row = _applied(session, collection)
            return None if row is None else row.as_weight_tuning().weights

    def tunings(self, collection: str) -> list[WeightTuning]:
        with self._database.reading() as session:
            collection_row(session, collection)
            return [row.as_weight_tuning() for row in session.scalars(_newest_first(collection))]

    def save(self, tuning: WeightTuning) -> None:
        facts = asdict(tuning)
        weights, validation = json.dumps(facts.pop("weights")), json.dumps(facts.pop("validation"))
        with self._database.writing() as session:
            collection_row(session, tuning.collection, is_locked=True)  # serialized, because only one tuning is applied
            if tuning.is_applied:
                others = update(WeightTuningRow).where(WeightTuningRow.collection == tuning.collection)
                session.execute(others.values(is_applied=False))
            session.add(WeightTuningRow(**facts, weights_json=weights, validation_json=validation))
            session.flush()
            old = [row.id for row in session.scalars(_newest_first(tuning.collection).offset(MAX_TUNINGS))]
            session.execute(delete(WeightTuningRow).where(WeightTuningRow.id.in_(old), ~WeightTuningRow.is_applied))

    def undo(self, collection: str) -> WeightTuning | None:
        with self._database.writing() as session:
            collection_row(session, collection, is_locked=True)
            row = _applied(session, collection)
            if row is None:
                return None
            row.is_applied, row.undone_at = False, self._database.clock()
            return row.as_weight_tuning()


def _applied(session: Session, collection: str) -> WeightTuningRow | None:
    statement = select(WeightTuningRow).where(WeightTuningRow.collection == collection, WeightTuningRow.is_applied)
    return session.scalars(statement.limit(1)).first()


def _newest_first(collection: str) -> Select[WeightTuningRow]:
    statement = select(WeightTuningRow).where(WeightTuningRow.collection == collection)
    return statement.order_by(WeightTuningRow.tuned_at.desc(), WeightTuningRow.id)
