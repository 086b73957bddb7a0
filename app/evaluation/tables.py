"""The results of an evaluation as CSV, for spreadsheets and notebooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from app.types.evaluation import EvaluationReport, Measure, Variant, VariantScores

EVERY_QUERY = "all"
_SETTINGS = ("variant", "collection", "mode", "steps", "instruction")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def scores_csv(report: EvaluationReport) -> str:
    """A row per variant over all queries, then per variant and instruction of the queries."""
    header = ["queries_judged_through", "queries", *_SETTINGS]
    header += [f"{measure.value}{part}" for measure in Measure for part in ("", "_low", "_high")]
    groups = [(EVERY_QUERY, len(report.queries), report.scores)]
    groups += [(each.instruction or "no instruction", each.query_count, each.scores) for each in report.by_instruction]
    return _csv(
        [*header, "median_ms"],
        ([name, count, *_row(scores)] for name, count, variants in groups for scores in variants),
    )


def queries_csv(report: EvaluationReport) -> str:
    """A row per query and variant."""
    header = ["query", "judged_through", "relevant_documents", *_SETTINGS, *(measure.value for measure in Measure)]
    return _csv(
        header,
        (
            [query.query, query.instruction, query.relevant_count, *_settings(scores.label, scores.variant)]
            + [f"{query.values[measure][place]:.6f}" for measure in Measure]
            for query in report.queries
            for place, scores in enumerate(report.scores)
        ),
    )


def _row(scores: VariantScores) -> list[object]:
    row: list[object] = [*_settings(scores.label, scores.variant)]
    for measure in Measure:
        estimate = scores.estimates[measure]
        row += [f"{number:.6f}" for number in (estimate.value, estimate.low, estimate.high)]
    return [*row, f"{scores.median_ms:.1f}"]


def _settings(label: str, variant: Variant) -> list[object]:
    steps = "" if variant.steps is None else variant.steps
    return [label, variant.collection, variant.mode.value, steps, str(variant.instruction or "")]


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return written.getvalue()


def _harmless(cell: object) -> object:
    """A query that begins like a formula must not become one in a spreadsheet."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
