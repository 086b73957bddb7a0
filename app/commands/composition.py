"""Opens the application for a command. The one place where the command line reaches its heavy imports.

They cost seconds (torch, SQL, Gradio), which `gircse --help` and the lighter commands must not spend.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from app.edge import EdgeProcess, edge_folder
from app.runtime.private_files import prepare_home, private_files
from app.settings import Settings, load_settings

if TYPE_CHECKING:  # they bring in numpy and others, which what asks a running service does without
    from app.ports.ledger import Ledger
    from app.ports.parts import Embedder
    from app.services import Services


def wiring(part: str) -> Any:
    """The module `part` of `app.wiring`: catalog, index, embedders, services, ingestion, transfer, web, training."""
    return importlib.import_module(f"app.wiring.{part}")


@contextmanager
def open_services(settings: Settings | None = None, *, needs_model: bool = False) -> Iterator[Services]:
    """`needs_model`: it is loaded beside all else that has to start."""
    settings = settings or load_settings()
    with private_files(), ExitStack() as opened:
        prepare_home(settings.home)
        edge = None
        if settings.qdrant_url is None:
            edge = EdgeProcess(edge_folder(settings.home))
            opened.callback(edge.stop)
            edge.begin()  # it takes as long as the imports of the wiring, and has a processor of its own
        embedder = embedder_of(settings)
        if needs_model:
            wiring("embedders").begin_loading(embedder)
        yield opened.enter_context(wiring("services").open_services(settings, embedder=embedder, edge=edge))


def embedder_of(settings: Settings) -> Embedder:
    """The model alone, for commands that keep nothing; loaded at its first use."""
    embedder: Embedder = wiring("embedders").embedder_for(settings)
    return embedder


@contextmanager
def open_catalog(settings: Settings | None = None) -> Iterator[Ledger]:
    """The catalog alone, for commands that need neither model nor index."""
    with wiring("catalog").open_catalog(settings or load_settings()) as catalog:
        yield catalog
