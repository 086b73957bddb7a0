"""What interfaces need of judged queries and evaluations, as protocols. Light to import, unlike what measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from app.types.evaluation import (
    Difference,
    EvaluationPlan,
    EvaluationRun,
    ImportReport,
    JudgedQuery,
    JudgementFile,
    JudgementSource,
)
from app.types.weights import CollectionWeights, WeightTuning


class JudgedQueries(Protocol):
    def sources(self, collection: str) -> list[JudgementSource]:
        """Who judged how much. Raises UnknownCollectionError."""
        ...

    def queries(self, collection: str, *, judged_by: Sequence[str] = ()) -> list[JudgedQuery]:
        """Of all judges, or of these; in the order of queries and instructions."""
        ...

    def import_files(
        self,
        collection: str,
        files: Iterable[JudgementFile],
        *,
        name: str | None = None,
        instruction: str | None = None,
    ) -> ImportReport:
        """In the place of the former import of this name; without one it goes by the names of the files.

        Raises InputError when nothing of it can be kept.
        """
        ...

    def forget_import(self, collection: str, judged_by: str) -> int:
        """How many judgements went. Raises ConflictError for what people said, NotFoundError."""
        ...


class Tuning(Protocol):
    """Tunes the weights of the legs of hybrid searches for a collection."""

    def weights(self, collection: str) -> CollectionWeights:
        """Those in use, the defaults, and the history. Raises UnknownCollectionError."""
        ...

    def tune(self, collection: str) -> WeightTuning:
        """By its judgements; applied where cross-validation gains more than twice its standard error.

        Raises ConflictError when too little is judged, UnknownCollectionError.
        """
        ...

    def undo(self, collection: str) -> WeightTuning:
        """Back to the defaults; the history stays. Raises NotFoundError when they are in use."""
        ...


class Evaluations(Protocol):
    """One runs at a time, in the background of a server; the last few are kept until the server ends."""

    def start(self, plan: EvaluationPlan) -> EvaluationRun:
        """Raises ConflictError while another one is running, InputError and NotFoundError for what cannot be."""
        ...

    def runs(self) -> list[EvaluationRun]:
        """The newest first."""
        ...

    def run(self, run_id: str) -> EvaluationRun:
        """Raises NotFoundError."""
        ...

    def cancel(self, run_id: str) -> EvaluationRun:
        """It ends after its present search; one that has ended stays as it is."""
        ...

    def compare(self, run_id: str, *, baseline: int = 0) -> list[Difference]:
        """Every variant of a run that has ended against one of them, measure by measure. Raises InputError."""
        ...

    def close(self) -> None:
        """Cancels what is running, and waits for it."""
        ...
