"""Tuned weights of a hybrid search's legs for a collection, with their validation (immutable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.types.search import Leg

MAX_TUNINGS = 20  # stored per collection
LEAST_ERRORS = 2.0  # standard errors that a gain must exceed; chance alone exceeds one in 15 % of cases


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Mean nDCG@10 over held-out queries, with the default weights and with the weights chosen on the other folds."""

    queries: int
    judgements: int
    folds: int
    default_ndcg: float
    tuned_ndcg: float
    standard_error: float  # of the mean difference over queries

    @property
    def gain(self) -> float:
        return self.tuned_ndcg - self.default_ndcg

    @property
    def pays(self) -> bool:
        return self.gain > LEAST_ERRORS * self.standard_error


@dataclass(frozen=True, slots=True)
class WeightTuning:
    """One tuning. `is_applied`: searches of the collection use these weights, until they are undone or tuned again."""

    id: str
    collection: str
    weights: Mapping[Leg, float]
    validation: CrossValidation
    tuned_by: str
    tuned_at: datetime
    is_applied: bool
    undone_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CollectionWeights:
    """The fusion weights of a collection's searches, the defaults, and all stored tunings, newest first."""

    collection: str
    weights: Mapping[Leg, float]
    defaults: Mapping[Leg, float]
    tunings: tuple[WeightTuning, ...] = ()
