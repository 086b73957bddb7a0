"""Runs the embedding server, as a separate process or as routes of the main application."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from app.errors import ConflictError, InputError
from app.settings import Settings
from app.wiring.embedding import LocalEmbedder, errors_translated, limits_of
from embedder.server.protocol import InputType
from embedder.server.service import EngineSource
from embedder.server.serving import DEFAULT_PORT, ListenError, listen, run_server

COMMAND = "gircse embedder"


@contextmanager
def open_source(local: LocalEmbedder) -> Iterator[EngineSource]:
    """A source of embeddings that shares the engine with searches and ingestion. Loads the model."""
    with closing(EngineSource(local.engine)) as source:
        yield source


def listening_socket(settings: Settings) -> socket.socket:
    """Bind the port of the embedding server. Its default differs from the main application's."""
    try:
        return listen(
            settings.host,
            port_of(settings),
            is_open=settings.is_open_to_network,
            api_key=_key_of(settings),
            command=COMMAND,
        )
    except ListenError as error:
        kind = InputError if settings.is_open_to_network and settings.embedder_api_key is None else ConflictError
        raise kind(str(error)) from None


def port_of(settings: Settings) -> int:
    return settings.port if "port" in settings.model_fields_set else DEFAULT_PORT


def serve(settings: Settings, listener: socket.socket, *, announce: Callable[[str], None]) -> None:
    with errors_translated():
        run_server(
            listener,
            settings.model,
            device=settings.device,
            dtype=settings.dtype,
            cuda_graphs=settings.cuda_graphs,
            limits=limits_of(settings),
            api_key=_key_of(settings),
            input_type=InputType(settings.embedder_input_type),
            announce=announce,
        )


def _key_of(settings: Settings) -> str | None:
    key = settings.embedder_api_key
    return None if key is None else key.get_secret_value()
