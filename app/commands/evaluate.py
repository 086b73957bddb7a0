"""`gircse eval`: runs the evaluation of the embedder (needs the extra `eval`)."""

from __future__ import annotations

import typer

from app.commands.wiring import wiring


def evaluate(ctx: typer.Context) -> None:
    """Evaluate a model. All arguments are passed to embedder.evaluation (needs the extra `eval`).

    Example: gircse eval --help
    """
    wiring("training").run_evaluation(ctx.args)
