"""Fusion weights of a collection's hybrid searches over HTTP: show, tune by judgements, undo."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import Field

from app.api.schemas import ResponseBody
from app.ports.evaluation import Tuning
from app.types.search import Leg
from app.types.weights import CollectionWeights, WeightTuning


class CrossValidationAnswer(ResponseBody):
    queries: int
    judgements: int
    folds: int
    default_ndcg: float = Field(description="nDCG@10 with the default weights.")
    tuned_ndcg: float = Field(description="nDCG@10 with tuned weights, on held-out queries of each fold.")
    gain: float
    standard_error: float = Field(description="Standard error of the gain over queries.")
    pays: bool = Field(description="Whether the gain is greater than twice its standard error.")


class WeightTuningAnswer(ResponseBody):
    id: str
    collection: str
    weights: dict[Leg, float]
    validation: CrossValidationAnswer
    tuned_by: str
    tuned_at: datetime
    is_applied: bool
    undone_at: datetime | None


class CollectionWeightsAnswer(ResponseBody):
    collection: str
    weights: dict[Leg, float] = Field(description="Weights in use. A leg that is missing here is not used.")
    defaults: dict[Leg, float]
    tunings: list[WeightTuningAnswer] = Field(description="The latest tunings, newest first, applied or not.")


def weight_routes(tuning: Tuning) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/collections", tags=["judgements"])

    @routes.get("/{name}/weights", response_model=CollectionWeightsAnswer)
    def show_weights(name: str) -> CollectionWeights:
        """The weights with which hybrid searches of the collection fuse their legs, and the history of tunings."""
        return tuning.weights(name)

    @routes.post("/{name}/weights", response_model=WeightTuningAnswer)
    def tune_weights(name: str) -> WeightTuning:
        """Tunes the weights on the collection's judgements.

        Requires at least 20 judgements of 5 queries with good and bad documents. Applies the weights if the
        cross-validated gain in nDCG@10 exceeds twice its standard error; returns the figures either way. Runs up to
        200 queries, one search each.
        """
        return tuning.tune(name)

    @routes.delete("/{name}/weights", response_model=WeightTuningAnswer)
    def undo_weights(name: str) -> WeightTuning:
        """Restores the default weights. Returns the undone tuning, which stays in the history."""
        return tuning.undo(name)

    return routes
