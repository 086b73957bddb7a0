"""Opens the catalog. Imports neither a model nor the vector index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.catalog import CatalogFacts, SqlCatalog, connect, describe, upgrade
from app.ports.ledger import Ledger
from app.runtime.private_files import prepare_home, private_files
from app.settings import Settings


@contextmanager
def open_catalog(settings: Settings) -> Iterator[Ledger]:
    """The catalog, migrated. What is written within the block is this user's alone."""
    with private_files():
        prepare_home(settings.home)
        engine = connect(settings.catalog_url)
        try:
            upgrade(engine)
            yield SqlCatalog(engine)
        finally:
            engine.dispose()


def describe_catalog(settings: Settings) -> CatalogFacts:
    """As it is, without migrating it."""
    engine = connect(settings.catalog_url)
    try:
        return describe(engine)
    finally:
        engine.dispose()
