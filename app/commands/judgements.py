"""`gircse judgements`: import, list and delete relevance judgements; evaluate and tune search with them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.api.weights import CollectionWeightsAnswer, WeightTuningAnswer
from app.commands import terminal
from app.commands.chosen_collection import InCollection, chosen_collection
from app.commands.wiring import open_catalog, open_services
from app.errors import ConflictError
from app.evaluation.judged import Judged
from app.evaluation.qrels import find_judgement_files
from app.evaluation.tables import queries_csv, scores_csv
from app.evaluation.weight_tuning import WeightTuner
from app.ports.evaluation import Evaluations
from app.types.evaluation import (
    Difference,
    Estimate,
    EvaluationPlan,
    EvaluationReport,
    EvaluationRun,
    EvaluationState,
    ImportReport,
    InstructionChoice,
    JudgementFile,
    Measure,
)
from app.types.printable import printable
from app.types.search import DEFAULT_MODE, Leg, SearchMode
from app.types.weights import WeightTuning
from embedder.refinement_steps import QUERY_STEPS

POLL_S = 0.2

judgements = typer.Typer(no_args_is_help=True, help="Import relevance judgements, and evaluate search with them.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the REST API returns it.")]


@judgements.command("import")
def import_judgements(
    path: Annotated[Path, typer.Argument(help="A folder in BEIR layout, a qrels file, or a table.")],
    collection: InCollection = None,
    queries: Annotated[Path | None, typer.Option(help="File of the queries, if it is not beside the qrels.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the import. Default: the name of PATH.")] = None,
    instruction: Annotated[
        str | None,
        typer.Option("--instruction", "-i", help="Instruction for all queries. Default: those of the file."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split in a folder of qrels. Default: test, or the only one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import judgements. They replace an earlier import of the same name.

    Accepts qrels of BEIR (query-id, corpus-id, score) or TREC with a file of queries, or a CSV or JSON Lines file with
    query, document and grade. Documents are matched by URI, its last part, or the metadata `_id` or `id`.

    Example: gircse judgements import scifact --collection papers
    """
    files = [*([queries] if queries else []), *find_judgement_files(path, split=split)]
    with ExitStack() as opened, open_catalog() as catalog:
        sources = [JudgementFile(str(each), opened.enter_context(each.open("rb"))) for each in dict.fromkeys(files)]
        taken = name or (path.resolve().name if path.is_dir() else None)
        target = chosen_collection(collection, catalog)
        report = Judged(catalog).import_files(target, sources, name=taken, instruction=instruction)
    if as_json:
        typer.echo(terminal.json_of(report))
        return
    _print_import(report)


@judgements.command("list")
def list_judgements(collection: InCollection = None, as_json: AsJson = False) -> None:
    """List the people and imports that judged, with their counts."""
    with open_catalog() as catalog:
        sources = Judged(catalog).sources(chosen_collection(collection, catalog))
    if as_json:
        terminal.print_json_lines(sources)
        return
    rows = [(each.judged_by, each.query_count, each.judgement_count) for each in sources]
    terminal.print_table(("by", "queries", "judgements"), rows)


@judgements.command("delete")
def delete_import(
    name: Annotated[str, typer.Argument(help="Name from `list`: import:NAME.")],
    collection: InCollection = None,
) -> None:
    """Delete the judgements of an import. Judgements by people are kept."""
    with open_catalog() as catalog:
        count = Judged(catalog).forget_import(chosen_collection(collection, catalog), name)
    typer.echo(f"Deleted {count} judgements.")


@judgements.command("evaluate")
def evaluate(
    collection: InCollection = None,
    compared_with: Annotated[
        list[str],
        typer.Option(
            "--compare", metavar="COLLECTION", help="Run the same queries on this collection, too. Repeatable."
        ),
    ] = [],  # noqa: B006
    modes: Annotated[list[SearchMode], typer.Option("--mode", help="Search mode. Repeatable.")] = [DEFAULT_MODE],  # noqa: B006
    steps: Annotated[list[int], typer.Option("--steps", help="Refinement steps. Repeatable.")] = [QUERY_STEPS],  # noqa: B006
    instructions: Annotated[
        list[str], typer.Option("--instruction", "-i", help="judged, default, none or lens:NAME. Repeatable.")
    ] = ["judged"],  # noqa: B006
    judged_by: Annotated[list[str], typer.Option(help="Only judgements by this person or import. Repeatable.")] = [],  # noqa: B006
    max_queries: Annotated[int | None, typer.Option(help="Size of a fixed sample of queries.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.", min=0, max=2**32 - 1)] = 0,
    scores_to: Annotated[Path | None, typer.Option("--csv", help="Write the table of scores to this file.")] = None,
    queries_to: Annotated[
        Path | None, typer.Option("--queries-csv", help="Write the scores of each query to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate search on the judged queries of a collection: nDCG, recall, reciprocal rank, with 95 % intervals.

    Runs every combination of mode, steps and instruction, and compares each with the first. Ctrl-C stops it and
    reports the finished queries.

    Example: gircse judgements evaluate -c papers --mode dense --mode hybrid --steps 1 --steps 5 --steps 20
    """
    read_instructions = tuple(map(InstructionChoice.parse, instructions))
    with open_services() as services:
        chosen = chosen_collection(collection, services.catalog)
        plan = EvaluationPlan(
            judged_in=chosen,
            collections=(chosen, *compared_with),
            modes=tuple(modes),
            steps=tuple(steps),
            instructions=read_instructions,
            judged_by=tuple(judged_by),
            max_queries=max_queries,
            seed=seed,
        )
        run = _followed(services.evaluations, plan)
        differences = services.evaluations.compare(run.id) if run.report else []
    if run.state is EvaluationState.FAILED or run.report is None:
        raise ConflictError(run.error or "The evaluation ended before its first query was finished.")
    for path, text in ((scores_to, scores_csv(run.report)), (queries_to, queries_csv(run.report))):
        if path is not None:
            path.write_bytes(text.encode("utf-8-sig"))
    if as_json:
        typer.echo(terminal.json_of(run))
    else:
        _print_report(run, run.report, differences)


@judgements.command("weights")
def show_weights(collection: InCollection = None, as_json: AsJson = False) -> None:
    """Show the weights with which hybrid searches fuse the results of their legs, and how they were tuned."""
    with open_services() as services:
        found = WeightTuner(services.catalog, services.search).weights(chosen_collection(collection, services.catalog))
    if as_json:
        typer.echo(terminal.json_of(CollectionWeightsAnswer.model_validate(found)))
        return
    origin = "the defaults" if found.weights == found.defaults else f"tuned; the defaults: {_text_of(found.defaults)}"
    terminal.stdout.print(f"{_text_of(found.weights)} ({origin})")
    for tuning in found.tunings:
        _print_tuning(tuning)


@judgements.command("tune")
def tune_weights(collection: InCollection = None, as_json: AsJson = False) -> None:
    """Tune the weights of hybrid searches on the judgements. They are applied if cross-validation confirms a gain.

    Requires at least 20 judgements of 5 queries, with relevant and irrelevant documents.

    Example: gircse judgements tune -c papers
    """
    with open_services() as services:
        chosen = chosen_collection(collection, services.catalog)
        tuning = WeightTuner(services.catalog, services.search).tune(chosen)
    if as_json:
        typer.echo(terminal.json_of(WeightTuningAnswer.model_validate(tuning)))
        return
    _print_tuning(tuning)
    typer.echo(
        f"The weights are applied. To undo: gircse judgements undo-tuning -c {chosen}"
        if tuning.is_applied
        else "No significant gain: nothing was changed."
    )


@judgements.command("undo-tuning")
def undo_tuning(collection: InCollection = None) -> None:
    """Restore the default weights. The history of tunings is kept."""
    with open_catalog() as catalog:
        undone = catalog.weights.undo(chosen_collection(collection, catalog))
    typer.echo("The weights were the defaults already." if undone is None else "The default weights are restored.")


def _text_of(weights: Mapping[Leg, float]) -> str:
    return ", ".join(f"{leg} {weight:g}" for leg, weight in weights.items() if weight)


def _print_tuning(tuning: WeightTuning) -> None:
    found, weights = tuning.validation, _text_of(tuning.weights)
    state = "applied" if tuning.is_applied else "undone" if tuning.undone_at else "not applied"
    terminal.stdout.print(
        f"{tuning.tuned_at:%Y-%m-%d %H:%M} by {printable(tuning.tuned_by)}, {state}: {weights}; "
        f"nDCG@10 {found.default_ndcg:.3f} → {found.tuned_ndcg:.3f} ({found.gain:+.3f} ± {found.standard_error:.3f}, "
        f"{found.queries} queries, {found.judgements} judgements, cross-validated)"
    )


def _followed(evaluations: Evaluations, plan: EvaluationPlan) -> EvaluationRun:
    """Run an evaluation to its end with a progress bar. Ctrl-C cancels it; finished queries are still reported."""
    run = evaluations.start(plan)
    columns = (TextColumn("searches"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal.stderr, transient=True) as progress:
        bar = progress.add_task("searches", total=run.total)
        while run.state is EvaluationState.RUNNING:
            try:
                time.sleep(POLL_S)
            except KeyboardInterrupt:
                evaluations.cancel(run.id)
            run = evaluations.run(run.id)
            progress.update(bar, completed=run.done)
    return run


def _print_import(report: ImportReport) -> None:
    typer.echo(
        f"Imported {report.judgement_count} judgements of {report.query_count} queries and {report.document_count} "
        f"documents as {report.judged_by}."
    )
    for count, names, what in (
        (report.unmatched_count, report.unmatched, "documents are not in the collection"),
        (report.ambiguous_count, report.ambiguous, "names match several documents"),
        (report.unknown_query_count, report.unknown_queries, "judged queries have no text in these files"),
    ):
        if count:
            shown = ", ".join(map(terminal.printable, names))
            typer.echo(f"Skipped: {count} {what}: {shown}{', …' if count > len(names) else ''}")
    if report.scaled_from is not None:
        typer.echo(f"Grades went up to {report.scaled_from:g}; they were scaled to 3.")


def _print_report(run: EvaluationRun, report: EvaluationReport, differences: list[Difference]) -> None:
    shown = list(Measure)
    rows = [
        [each.label, *(_interval(each.estimates[measure]) for measure in shown), f"{each.median_ms:.0f}"]
        for each in report.scores
    ]
    queries = f"{len(report.queries)} queries"
    if run.state is EvaluationState.CANCELLED:
        queries += f" of {run.query_count}, since it was cancelled"
    terminal.stdout.print(f"{queries}; 95 % intervals")
    terminal.print_table(["", *(each.label for each in shown), "median ms"], rows)
    if differences:
        terminal.stdout.print(f"\nDifference in {Measure.NDCG_10.label} to {printable(report.scores[0].label)}")
        changes = [
            [each.label, _interval(each.estimate, sign="+"), f"{each.better} better, {each.worse} worse"]
            for each in differences
            if each.measure is Measure.NDCG_10
        ]
        terminal.print_table(("", "difference", "queries"), changes)
    for name, count in report.missing_documents.items():
        terminal.stdout.print(f"{count} relevant documents are not in {name}; they count as not found.")
    for query, reason in list(report.unanswered.items())[:5]:
        terminal.stdout.print(f"Skipped: {printable(query)[:60]}: {reason}")


def _interval(estimate: Estimate, *, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3f}\n{estimate.low:{sign}.3f} to {estimate.high:{sign}.3f}"
