"""`gircse judgements`: how well documents answer queries, brought in, listed, and search measured by them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.api.weights import CollectionWeightsAnswer, WeightTuningAnswer
from app.commands import console
from app.commands.composition import open_catalog, open_services
from app.errors import ConflictError
from app.evaluation.judged import Judged
from app.evaluation.qrels import find_judgement_files
from app.evaluation.tables import queries_csv, scores_csv
from app.evaluation.weight_tuning import WeightTuner
from app.ports.evaluation import Evaluations
from app.types.defaults import DEFAULT_COLLECTION
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
from app.types.search import DEFAULT_MODE, Leg, SearchMode
from app.types.weights import WeightTuning
from embedder.refinement_steps import QUERY_STEPS

POLL_S = 0.2

judgements = typer.Typer(no_args_is_help=True, help="Bring in judgements of queries, and measure search by them.")

InCollection = Annotated[str, typer.Option("--collection", "-c", help="Whose documents were judged.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, the same as the REST API answers.")]


@judgements.command("import")
def import_judgements(
    path: Annotated[Path, typer.Argument(help="A folder as BEIR has it, a file of qrels, or a table.")],
    collection: InCollection = DEFAULT_COLLECTION,
    queries: Annotated[Path | None, typer.Option(help="The file of queries, when it is not beside the qrels.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the import. Left out: the name of PATH.")] = None,
    instruction: Annotated[
        str | None,
        typer.Option("--instruction", "-i", help="Through which all queries are seen. Left out: the file's."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of a folder of qrels. Left out: test, or the only one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Bring in judgements; a former import of this name goes.

    Qrels of BEIR (query-id, corpus-id, score) or TREC with a file of queries, or a CSV or JSON Lines file with query,
    document and grade. Documents are matched by uri, its last part, or the metadata `_id` or `id`.

    Example: gircse judgements import scifact --collection papers
    """
    files = [*([queries] if queries else []), *find_judgement_files(path, split=split)]
    with ExitStack() as opened, open_catalog() as catalog:
        sources = [JudgementFile(str(each), opened.enter_context(each.open("rb"))) for each in dict.fromkeys(files)]
        taken = name or (path.resolve().name if path.is_dir() else None)
        report = Judged(catalog).import_files(collection, sources, name=taken, instruction=instruction)
    if as_json:
        typer.echo(console.json_of(report))
        return
    _print_import(report)


@judgements.command("list")
def list_judgements(collection: InCollection = DEFAULT_COLLECTION, as_json: AsJson = False) -> None:
    """List who judged how much: people, and imports."""
    with open_catalog() as catalog:
        sources = Judged(catalog).sources(collection)
    if as_json:
        console.print_json_lines(sources)
        return
    rows = [(each.judged_by, each.query_count, each.judgement_count) for each in sources]
    console.print_table(("by", "queries", "judgements"), rows)


@judgements.command("delete")
def delete_import(
    name: Annotated[str, typer.Argument(help="As `list` shows it: import:NAME.")],
    collection: InCollection = DEFAULT_COLLECTION,
) -> None:
    """Delete an import. What people said is taken back one by one."""
    with open_catalog() as catalog:
        count = Judged(catalog).forget_import(collection, name)
    typer.echo(f"{count} judgements are deleted.")


@judgements.command("evaluate")
def evaluate(
    collection: InCollection = DEFAULT_COLLECTION,
    compared_with: Annotated[
        list[str],
        typer.Option("--compare", metavar="COLLECTION", help="Another collection, asked the same. Repeatable."),
    ] = [],  # noqa: B006
    modes: Annotated[list[SearchMode], typer.Option("--mode", help="Repeatable.")] = [DEFAULT_MODE],  # noqa: B006
    steps: Annotated[list[int], typer.Option("--steps", help="Repeatable.")] = [QUERY_STEPS],  # noqa: B006
    instructions: Annotated[
        list[str], typer.Option("--instruction", "-i", help="judged, default, none or lens:NAME. Repeatable.")
    ] = ["judged"],  # noqa: B006
    judged_by: Annotated[list[str], typer.Option(help="Only these judgements. Repeatable.")] = [],  # noqa: B006
    max_queries: Annotated[int | None, typer.Option(help="A sample of so many.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.", min=0, max=2**32 - 1)] = 0,
    scores_to: Annotated[Path | None, typer.Option("--csv", help="Write the table of scores there.")] = None,
    queries_to: Annotated[
        Path | None, typer.Option("--queries-csv", help="Write the scores of each query there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure search on the judged queries of a collection: nDCG, recall, reciprocal rank, with 95 % intervals.

    Every mode with every number of steps and every instruction; differences are to the first one. Ctrl-C ends it.

    Example: gircse judgements evaluate -c papers --mode dense --mode hybrid --steps 1 --steps 5 --steps 20
    """
    plan = EvaluationPlan(
        judged_in=collection,
        collections=(collection, *compared_with),
        modes=tuple(modes),
        steps=tuple(steps),
        instructions=tuple(map(InstructionChoice.parse, instructions)),
        judged_by=tuple(judged_by),
        max_queries=max_queries,
        seed=seed,
    )
    with open_services() as services:
        run = _followed(services.evaluations, plan)
        differences = services.evaluations.compare(run.id) if run.report else []
    if run.state is EvaluationState.FAILED or run.report is None:
        raise ConflictError(run.error or "The evaluation ended before its first query was finished.")
    for path, text in ((scores_to, scores_csv(run.report)), (queries_to, queries_csv(run.report))):
        if path is not None:
            path.write_bytes(text.encode("utf-8-sig"))
    if as_json:
        typer.echo(console.json_of(run))
    else:
        _print_report(run, run.report, differences)


@judgements.command("weights")
def show_weights(collection: InCollection = DEFAULT_COLLECTION, as_json: AsJson = False) -> None:
    """Show with which weights hybrid searches fuse what their legs find, and how these were tuned."""
    with open_services() as services:
        found = WeightTuner(services.catalog, services.search).weights(collection)
    if as_json:
        typer.echo(console.json_of(CollectionWeightsAnswer.model_validate(found)))
        return
    is_default = "the defaults" if found.weights == found.defaults else f"tuned; the defaults: {_told(found.defaults)}"
    console.stdout.print(f"{_told(found.weights)} ({is_default})")
    for each in found.tunings:
        _print_tuning(each)


@judgements.command("tune")
def tune_weights(collection: InCollection = DEFAULT_COLLECTION, as_json: AsJson = False) -> None:
    """Tune these weights by the judgements, and apply them where cross-validation says that it pays.

    At least 20 judgements of 5 queries are needed, with documents that answer and documents that do not.

    Example: gircse judgements tune -c papers
    """
    with open_services() as services:
        tuning = WeightTuner(services.catalog, services.search).tune(collection)
    if as_json:
        typer.echo(console.json_of(WeightTuningAnswer.model_validate(tuning)))
        return
    _print_tuning(tuning)
    typer.echo(
        f"They are applied. Undo it: gircse judgements undo-tuning -c {collection}"
        if tuning.is_applied
        else "They do not pay: nothing has changed."
    )


@judgements.command("undo-tuning")
def undo_tuning(collection: InCollection = DEFAULT_COLLECTION) -> None:
    """Go back to the default weights; the history stays."""
    with open_catalog() as catalog:
        undone = catalog.undo_weight_tuning(collection)
    typer.echo("The weights are the defaults already." if undone is None else "The weights are the defaults again.")


def _told(weights: Mapping[Leg, float]) -> str:
    return ", ".join(f"{leg} {weight:g}" for leg, weight in weights.items() if weight)


def _print_tuning(tuning: WeightTuning) -> None:
    found = tuning.validation
    state = "applied" if tuning.is_applied else "undone" if tuning.undone_at else "not applied"
    console.stdout.print(
        f"{tuning.tuned_at:%Y-%m-%d %H:%M} by {console.printable(tuning.tuned_by)}, {state}: {_told(tuning.weights)}; "
        f"nDCG@10 {found.default_ndcg:.3f} → {found.tuned_ndcg:.3f} ({found.gain:+.3f} ± {found.standard_error:.3f}, "
        f"{found.queries} queries, {found.judgements} judgements, cross-validated)"
    )


def _followed(evaluations: Evaluations, plan: EvaluationPlan) -> EvaluationRun:
    """Runs to its end; Ctrl-C cancels it, and what was finished is reported."""
    run = evaluations.start(plan)
    columns = (TextColumn("searches"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console.stderr, transient=True) as progress:
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
        f"{report.judgement_count} judgements of {report.query_count} queries and {report.document_count} documents "
        f"are kept as {report.judged_by}."
    )
    for count, names, what in (
        (report.unmatched_count, report.unmatched, "documents are not in the collection"),
        (report.ambiguous_count, report.ambiguous, "names fit several documents"),
        (report.unknown_query_count, report.unknown_queries, "judged queries have no text in these files"),
    ):
        if count:
            shown = ", ".join(map(console.printable, names))
            typer.echo(f"Left out: {count} {what}: {shown}{', …' if count > len(names) else ''}")
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
    console.stdout.print(f"{queries}; 95 % intervals")
    console.print_table(["", *(each.label for each in shown), "median ms"], rows)
    if differences:
        console.stdout.print(f"\nDifference in {Measure.NDCG_10.label} to {console.printable(report.scores[0].label)}")
        changes = [
            [each.label, _interval(each.estimate, sign="+"), f"{each.better} better, {each.worse} worse"]
            for each in differences
            if each.measure is Measure.NDCG_10
        ]
        console.print_table(("", "difference", "queries"), changes)
    for name, count in report.missing_documents.items():
        console.stdout.print(f"{count} relevant documents are not in {name}; they count as not found.")
    for query, reason in list(report.unanswered.items())[:5]:
        console.stdout.print(f"Left out: {console.printable(query)[:60]}: {reason}")


def _interval(estimate: Estimate, *, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3f}\n{estimate.low:{sign}.3f} to {estimate.high:{sign}.3f}"
