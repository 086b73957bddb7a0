"""Opens and checks the catalog. Imports neither the model nor the vector index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from app.catalog import CatalogFacts, SqlCatalog, check_file, check_rows, connect, describe, file_of, upgrade
from app.documents.blobs import FolderBlobStore
from app.errors import DamagedCatalogError
from app.maintenance.backup_schedule import last_backup
from app.runtime.private_files import prepare_home, private_files
from app.settings import Settings


@contextmanager
def open_catalog(settings: Settings) -> Iterator[SqlCatalog]:
    """Migrate and open the catalog. Files created within the block are readable only by this user.

    Raises DamagedCatalogError, which names the last backup.
    """
    with private_files(), _last_backup_named(settings):
        prepare_home(settings.home)
        engine = connect(settings.catalog_url)
        try:
            check_catalog(settings)
            upgrade(engine, before_new=partial(_require_no_files, settings))
            yield SqlCatalog(engine)
        finally:
            engine.dispose()


def check_catalog(settings: Settings, *, is_thorough: bool = False) -> None:
    """Raise DamagedCatalogError if the catalog's SQLite file is damaged. Does not check a database server."""
    engine = connect(settings.catalog_url)
    if (file := file_of(engine)) is not None:
        with _last_backup_named(settings):
            check_file(file, is_thorough=is_thorough)


def check_values(settings: Settings) -> None:
    """Raise DamagedCatalogError if a row of the (migrated) catalog is unreadable."""
    engine = connect(settings.catalog_url)
    try:
        with _last_backup_named(settings):
            check_rows(engine)
    finally:
        engine.dispose()


def _require_no_files(settings: Settings) -> None:
    """Raise DamagedCatalogError if there are stored files although the catalog is empty: it was lost.

    With a new, empty catalog all these files would be garbage and deleted.
    """
    folder = settings.home / "files"
    if any(True for _ in FolderBlobStore(folder).hashes()):
        place = connect(settings.catalog_url).url.render_as_string(hide_password=True)
        found = f"it is empty or gone, though files of documents are in {folder} (to begin anew, move them away)"
        raise DamagedCatalogError.of(place, found)


@contextmanager
def _last_backup_named(settings: Settings) -> Iterator[None]:
    """Add the path of the last backup to the message of a DamagedCatalogError."""
    try:
        yield
    except DamagedCatalogError as error:
        backup = last_backup(settings.backup_directory)
        if backup is None or str(backup) in str(error):
            raise
        raise DamagedCatalogError.of(error.place, error.found, backup=str(backup)) from error


def describe_catalog(settings: Settings) -> CatalogFacts:
    """Facts about the catalog as it is, without migrating it."""
    engine = connect(settings.catalog_url)
    try:
        return describe(engine)
    finally:
        engine.dispose()
