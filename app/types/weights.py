"""Weights of the legs of a hybrid search that were tuned for a collection, and what came of it: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.types.search import Leg

MAX_TUNINGS = 20  # of a collection, that are kept
LEAST_ERRORS = 2.0  # standard errors that a gain must exceed; chance exceeds one in 15 % of cases


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """nDCG@10 of queries that each fold's weights were not chosen on, by the weights in use and by the chosen ones."""

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
    """`is_applied`: searches of the collection use these weights, until it is undone or tuned again."""

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
    """What the searches of a collection fuse with, and how it came to that: tunings, the newest first."""

    collection: str
    weights: Mapping[Leg, float]
    defaults: Mapping[Leg, float]
    tunings: tuple[WeightTuning, ...] = ()
