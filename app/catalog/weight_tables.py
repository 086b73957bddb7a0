"""The table of tuned weights, with conversion of rows to values."""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.tables import Table
from app.types.search import Leg
from app.types.weights import CrossValidation, WeightTuning


class WeightTuningRow(Table):
    """Weights tuned for a collection; at most one tuning per collection is applied."""

    __tablename__ = "weight_tuning"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    collection: Mapped[str] = mapped_column(ForeignKey("collection.name", ondelete="CASCADE"), index=True)
    weights_json: Mapped[str] = mapped_column(Text)
    validation_json: Mapped[str] = mapped_column(Text)
    tuned_by: Mapped[str]
    tuned_at: Mapped[datetime]
    is_applied: Mapped[bool]
    undone_at: Mapped[datetime | None]

    def as_weight_tuning(self) -> WeightTuning:
        return WeightTuning(
            id=self.id,
            collection=self.collection,
            weights={Leg(leg): weight for leg, weight in json.loads(self.weights_json).items()},
            validation=CrossValidation(**json.loads(self.validation_json)),
            tuned_by=self.tuned_by,
            tuned_at=self.tuned_at,
            is_applied=self.is_applied,
            undone_at=self.undone_at,
        )
