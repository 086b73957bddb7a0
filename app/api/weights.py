"""Weights of the legs of a collection's searches over HTTP: shown, tuned by judgements, undone."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import Field

from app.api.schemas import Answer
from app.ports.evaluation import Tuning
from app.types.search import Leg
from app.types.weights import CollectionWeights, WeightTuning


class CrossValidationAnswer(Answer):
    queries: int
    judgements: int
    folds: int
    default_ndcg: float = Field(description="nDCG@10 with the default weights.")
    tuned_ndcg: float = Field(description="The same of queries that the weights of their fold were not chosen on.")
    gain: float
    standard_error: float = Field(description="Of the gain, over queries.")
    pays: bool = Field(description="Whether the gain is greater than twice its standard error.")


class WeightTuningAnswer(Answer):
    id: str
    collection: str
    weights: dict[Leg, float]
    validation: CrossValidationAnswer
    tuned_by: str
    tuned_at: datetime
    is_applied: bool
    undone_at: datetime | None


class CollectionWeightsAnswer(Answer):
    collection: str
    weights: dict[Leg, float] = Field(description="Those in use. A leg that is not named has none.")
    defaults: dict[Leg, float]
    tunings: list[WeightTuningAnswer] = Field(
        description="The last ones, the newest first, with those that did not pay."
    )


def weight_routes(tuning: Tuning) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/collections", tags=["judgements"])

    @routes.get("/{name}/weights", response_model=CollectionWeightsAnswer)
    def show_weights(name: str) -> CollectionWeights:
        """With which weights hybrid searches of the collection fuse their legs, and how it came to that."""
        return tuning.weights(name)

    @routes.post("/{name}/weights", response_model=WeightTuningAnswer)
    def tune_weights(name: str) -> WeightTuning:
        """Tunes them by the collection's judgements, at least 20 of 5 queries with good and bad documents.

        They are applied where nDCG@10, cross-validated over queries, gains more than twice its standard error; the
        figures are answered either way. Up to 200 queries are asked, each as one search.
        """
        return tuning.tune(name)

    @routes.delete("/{name}/weights", response_model=WeightTuningAnswer)
    def undo_weights(name: str) -> WeightTuning:
        """Back to the defaults. What was undone is answered, and stays in the history."""
        return tuning.undo(name)

    return routes
