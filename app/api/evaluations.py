"""Imports of judgements and evaluations over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Response, UploadFile
from pydantic import Field

from app.api.base_schemas import RequestBody
from app.api.idempotency import IdempotencyKey, answer_once
from app.errors import ConflictError, InputError
from app.evaluation.tables import queries_csv, scores_csv
from app.ports.catalog import IdempotencyRecords
from app.ports.evaluation import Evaluations, JudgedQueries
from app.types.defaults import DEFAULT_COLLECTION
from app.types.evaluation import (
    Difference,
    EvaluationPlan,
    EvaluationReport,
    EvaluationRun,
    ImportReport,
    InstructionChoice,
    JudgementFile,
    JudgementSource,
)
from app.types.search import DEFAULT_MODE, SearchMode
from embedder.refinement_steps import QUERY_STEPS

MAX_FILES = 10
CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "A table."}
}


class NewEvaluation(RequestBody):
    collection: str = Field(default=DEFAULT_COLLECTION, description="Run the judged queries of this collection.")
    compared_with: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="Run the same queries on these collections too. Documents are matched by URI.",
    )
    modes: list[SearchMode] = Field(default=[DEFAULT_MODE], max_length=8)
    steps: list[int] = Field(default=[QUERY_STEPS], max_length=32)
    instructions: list[str] = Field(
        default=["judged"], max_length=32, description="Any of `judged`, `default`, `none` and `lens:NAME`."
    )
    judged_by: list[str] = Field(default_factory=list, max_length=100, description="Default: everyone.")
    max_queries: int | None = Field(default=None, ge=1, description="Size of a fixed sample of queries. Default: all.")
    seed: int = Field(default=0, ge=0, lt=2**32, description="Seed of the bootstrap.")

    def plan(self) -> EvaluationPlan:
        return EvaluationPlan(
            judged_in=self.collection,
            collections=(self.collection, *self.compared_with),
            modes=tuple(self.modes),
            steps=tuple(self.steps),
            instructions=tuple(map(InstructionChoice.parse, self.instructions)),
            judged_by=tuple(self.judged_by),
            max_queries=self.max_queries,
            seed=self.seed,
        )


def judged_query_routes(judged: JudgedQueries) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/judgements", tags=["judgements"])

    @routes.get("/sources", response_model=list[JudgementSource])
    def list_sources(collection: str) -> list[JudgementSource]:
        """Lists the people and imports that judged, with counts. Names of imports begin with `import:`."""
        return judged.sources(collection)

    @routes.post("/import", response_model=ImportReport)
    def import_judgements(
        files: Annotated[list[UploadFile], File(description="Qrels with their queries, or one table.")],
        collection: Annotated[str, Form()] = DEFAULT_COLLECTION,
        name: Annotated[
            str | None, Form(description="Name of the import; replaces an import of this name. Default: file names.")
        ] = None,
        instruction: Annotated[
            str | None, Form(description="Instruction for all queries. Default: the instructions in the files.")
        ] = None,
    ) -> ImportReport:
        """Imports BEIR or TREC qrels with their queries, or a table with the columns query, document and grade."""
        if len(files) > MAX_FILES:
            raise InputError(f"An import takes at most {MAX_FILES} files, not {len(files)}.")
        opened = [JudgementFile(file.filename or "file", file.file) for file in files]
        return judged.import_files(collection, opened, name=name, instruction=instruction)

    @routes.delete("/import", status_code=204)
    def delete_import(collection: str, judged_by: str) -> None:
        """Deletes the judgements of an import. `judged_by` is its name in the list of sources."""
        judged.forget_import(collection, judged_by)

    return routes


def evaluation_routes(evaluations: Evaluations, answers: IdempotencyRecords) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/evaluations", tags=["evaluations"])

    @routes.post("", status_code=202, response_model=EvaluationRun)
    def start_evaluation(new: NewEvaluation, key: IdempotencyKey = None) -> object:
        """Starts an evaluation of search on the judged queries in the background, one of each user at a time."""
        return answer_once(
            answers,
            key,
            request_text=lambda: f"start_evaluation {new.model_dump_json()}",
            do=lambda: evaluations.start(new.plan()),
            shape=EvaluationRun,
            status=202,
        )

    @routes.get("", response_model=list[EvaluationRun], response_model_exclude={"__all__": {"report"}})
    def list_evaluations() -> list[EvaluationRun]:
        """Lists the latest evaluations, newest first, without their results."""
        return evaluations.runs()

    @routes.get("/{run_id}", response_model=EvaluationRun)
    def show_evaluation(run_id: str) -> EvaluationRun:
        """The progress of an evaluation and, once it has ended, its results."""
        return evaluations.run(run_id)

    @routes.delete("/{run_id}", response_model=EvaluationRun)
    def cancel_evaluation(run_id: str) -> EvaluationRun:
        """Cancels an evaluation. It ends soon and reports on the queries that are finished."""
        return evaluations.cancel(run_id)

    @routes.get("/{run_id}/differences", response_model=list[Difference])
    def compare_variants(run_id: str, baseline: Annotated[int, Query(ge=0)] = 0) -> list[Difference]:
        """Compares every variant with the variant number `baseline`, over the same queries.

        Gives the mean difference with the confidence interval of a paired bootstrap.
        """
        return evaluations.compare(run_id, baseline=baseline)

    @routes.get("/{run_id}/scores.csv", response_class=Response, responses=CSV)
    def download_scores(run_id: str) -> Response:
        """The scores of every variant as CSV."""
        return _download(scores_csv(_report_of(evaluations.run(run_id))), f"scores-{run_id[:8]}.csv")

    @routes.get("/{run_id}/queries.csv", response_class=Response, responses=CSV)
    def download_queries(run_id: str) -> Response:
        """The scores of every query as CSV."""
        return _download(queries_csv(_report_of(evaluations.run(run_id))), f"queries-{run_id[:8]}.csv")

    return routes


def _report_of(run: EvaluationRun) -> EvaluationReport:
    if run.report is None:
        raise ConflictError("This evaluation has no results yet. Wait until it has ended.")
    return run.report


def _download(text: str, name: str) -> Response:
    # With a byte order mark: without it spreadsheets misread UTF-8.
    content = text.encode("utf-8-sig", "backslashreplace")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)
