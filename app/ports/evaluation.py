"""Ports: judged queries and evaluations, for interfaces. Light to import, unlike the implementation."""

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
        """Judges with their numbers of judgements. Raises UnknownCollectionError."""
        ...

    def queries(self, collection: str, *, judged_by: Sequence[str] = ()) -> list[JudgedQuery]:
        """Queries of all judges, or of these; sorted by query and instruction."""
        ...

    def import_files(
        self,
        collection: str,
        files: Iterable[JudgementFile],
        *,
        name: str | None = None,
        instruction: str | None = None,
    ) -> ImportReport:
        """Replaces the previous import of the same name; the default name comes from the file names.

        Raises InputError if no judgement can be imported.
        """
        ...

    def forget_import(self, collection: str, judged_by: str) -> int:
        """Returns the number of deleted judgements. Raises NotFoundError, and ConflictError for judgements of
        people.
        """
        ...


class Tuning(Protocol):
    """Tunes the leg weights of a collection's hybrid searches."""

    def weights(self, collection: str) -> CollectionWeights:
        """The weights in use, the defaults, and the history. Raises UnknownCollectionError."""
        ...

    def tune(self, collection: str) -> WeightTuning:
        """Tune on the collection's judgements; apply the result only if cross-validation gains more than twice its
        standard error.

        Raises ConflictError for too few judgements, and UnknownCollectionError.
        """
        ...

    def undo(self, collection: str) -> WeightTuning:
        """Return to the defaults; keeps the history. Raises NotFoundError if they are already in use."""
        ...


class Evaluations(Protocol):
    """Runs one evaluation of each user at a time in the background of a server, and keeps the last few of each until
    the server stops.
    """

    def start(self, plan: EvaluationPlan) -> EvaluationRun:
        """Raises ConflictError while another one of the user, or too many of others, run; InputError and NotFoundError
        for an invalid plan.
        """
        ...

    def runs(self) -> list[EvaluationRun]:
        """Newest first."""
        ...

    def run(self, run_id: str) -> EvaluationRun:
        """Raises NotFoundError."""
        ...

    def cancel(self, run_id: str) -> EvaluationRun:
        """The run ends after its current search; a finished run stays unchanged."""
        ...

    def compare(self, run_id: str, *, baseline: int = 0) -> list[Difference]:
        """Compares every variant of a finished run with one of them, measure by measure. Raises InputError."""
        ...

    def close(self) -> None:
        """Cancels the running evaluation and waits for it."""
        ...
