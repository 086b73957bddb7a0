"""`gircse eval`: hands over to the evaluation of the embedder, where that is installed."""

from __future__ import annotations

import typer

from app.commands.composition import wiring


def evaluate(ctx: typer.Context) -> None:
    """Measure a model; every argument goes to embedder.evaluation (needs the extra `eval`).

    Example: gircse eval --help
    """
    wiring("training").run_evaluation(ctx.args)
