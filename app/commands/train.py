"""`gircse train`: hands over to the training of the embedder, where that is installed."""

from __future__ import annotations

import typer

from app.commands.composition import wiring


def train(ctx: typer.Context) -> None:
    """Train an adapter; every argument goes to embedder.training (needs the extra `train`).

    Example: gircse train --help
    """
    wiring("training").run_training(ctx.args)
