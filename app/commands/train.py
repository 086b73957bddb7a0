"""`gircse train`: runs the training of the embedder (needs the extra `train`)."""

from __future__ import annotations

import typer

from app.commands.wiring import wiring


def train(ctx: typer.Context) -> None:
    """Train an adapter. All arguments are passed to embedder.training (needs the extra `train`).

    Example: gircse train --help
    """
    wiring("training").run_training(ctx.args)
