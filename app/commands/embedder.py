"""`gircse embedder`: runs the model as a separate server for many clients and replicas."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.wiring import wiring
from app.settings import load_settings


def embedder(
    model: Annotated[str | None, typer.Option(help="Overrides GIRCSE_MODEL.")] = None,
    device: Annotated[str | None, typer.Option(help="Overrides GIRCSE_DEVICE, such as cpu or cuda:0.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Overrides GIRCSE_DTYPE.")] = None,
    host: Annotated[str | None, typer.Option(help="Overrides GIRCSE_HOST.")] = None,
    port: Annotated[int | None, typer.Option(help="Overrides GIRCSE_PORT. Default: 7861. 0: any free port.")] = None,
) -> None:
    """Run an embedding server with OpenAI's /v1/embeddings. Other processes use it through GIRCSE_EMBEDDER_URL. Ctrl-C
    stops it.

    Example: gircse embedder --device cuda:0
    """
    settings = load_settings(model=model, device=device, dtype=dtype, host=host, port=port)
    engine = wiring("engine")
    with engine.listening_socket(settings) as listener:
        engine.serve(settings, listener, announce=_announce)


def _announce(url: str) -> None:
    typer.echo(f"Ready: {url}   (API: {url}/docs, Ctrl-C stops)")
