"""Opens the application's services for a command. Only this module imports the heavy parts, inside functions.

Torch, SQL and Gradio take seconds to import; `gircse --help` and light commands must not wait for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from app.edge import EdgeProcess, edge_folder
from app.runtime.private_files import prepare_home, private_files
from app.settings import Settings, load_settings

if TYPE_CHECKING:  # these import numpy and more, which commands that ask a running service do not need
    from app.catalog import SqlCatalog
    from app.ports.parts import Embedder
    from app.services import Services


def wiring(part: str) -> Any:
    """Import and return the module `app.wiring.<part>`, such as catalog, index, services or ingestion."""
    return importlib.import_module(f"app.wiring.{part}")


@contextmanager
def open_services(settings: Settings | None = None, *, needs_model: bool = False) -> Iterator[Services]:
    """All services. `needs_model` starts loading the model at once, in parallel with the rest."""
    settings = settings or load_settings()
    with private_files(), ExitStack() as opened:
        prepare_home(settings.home)
        edge = None
        if settings.qdrant_url is None:
            edge = EdgeProcess(edge_folder(settings.home))
            opened.callback(edge.stop)
            edge.begin()  # runs in its own process while this one imports the wiring, which takes about as long
        embedder = embedder_of(settings)
        if needs_model:
            wiring("embedders").begin_loading(embedder)
        yield opened.enter_context(wiring("services").open_services(settings, embedder=embedder, edge=edge))


def embedder_of(settings: Settings) -> Embedder:
    """Only the model, for commands that store nothing. It is loaded at its first use."""
    embedder: Embedder = wiring("embedders").embedder_for(settings)
    return embedder


@contextmanager
def open_catalog(settings: Settings | None = None) -> Iterator[SqlCatalog]:
    """Only the catalog, for commands that need neither model nor index."""
    with wiring("catalog").open_catalog(settings or load_settings()) as catalog:
        yield catalog
