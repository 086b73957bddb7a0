"""Writes the results of an evaluation as CSV."""

from __future__ import annotations

from app.search.csv_table import csv_table
from app.types.evaluation import EvaluationReport, Measure, Variant, VariantScores

EVERY_QUERY = "all"
_SETTINGS = ("variant", "collection", "mode", "steps", "instruction")


def scores_csv(report: EvaluationReport) -> str:
    """One row per variant over all queries, then one per variant and instruction of the judged queries."""
    header = ["queries_judged_through", "queries", *_SETTINGS]
    header += [f"{measure.value}{part}" for measure in Measure for part in ("", "_low", "_high")]
    groups = [(EVERY_QUERY, len(report.queries), report.scores)]
    groups += [(one.instruction or "no instruction", one.query_count, one.scores) for one in report.by_instruction]
    return csv_table(
        [*header, "median_ms"],
        ([name, count, *_row(scores)] for name, count, variants in groups for scores in variants),
    )


def queries_csv(report: EvaluationReport) -> str:
    """One row per query and variant."""
    header = ["query", "judged_through", "relevant_documents", *_SETTINGS, *(measure.value for measure in Measure)]
    return csv_table(
        header,
        (
            [query.query, query.instruction, query.relevant_count, *_settings(scores.label, scores.variant)]
            + [f"{query.values[measure][number]:.6f}" for measure in Measure]
            for query in report.queries
            for number, scores in enumerate(report.scores)
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
