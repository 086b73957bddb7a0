"""Backup and restore of the installation of the settings and services."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from app.catalog import connect, file_of, is_filled, load, snapshot
from app.documents.blobs import FolderBlobStore
from app.errors import ArchiveError, ConflictError, DamagedCatalogError, GircseError
from app.maintenance.backup import BackupFacts, BackupReader, BackupWriter
from app.maintenance.backup_schedule import BackupSchedule
from app.runtime.private_files import prepare_home, private_files
from app.runtime.service_socket import connect as connect_to_service
from app.runtime.service_socket import find_services
from app.runtime.worker_lock import is_worker_running
from app.services import Services
from app.settings import Settings
from app.types.documents import utc_now
from app.wiring.catalog import check_catalog

_URLS = ("database_url", "qdrant_url", "embedder_url", "rerank_url")


def write_backup(
    services: Services, path: Path, *, with_indexes: bool, on_progress: Callable[[int], None] = lambda documents: None
) -> BackupFacts:
    engine = connect(services.settings.catalog_url)
    try:
        writer = BackupWriter(
            catalog=services.catalog,
            open_snapshot=partial(snapshot, engine),
            index=services.index if with_indexes else None,
            files=services.settings.home / "files",
        )
        return writer.write(
            path,
            made_at=utc_now().isoformat(timespec="seconds"),
            release=version("gircse-search"),
            settings=settings_without_secrets(services.settings),
            on_progress=on_progress,
        )
    finally:
        engine.dispose()


def schedule_of(services: Services) -> BackupSchedule | None:
    settings = services.settings
    if settings.backup_directory is None:
        return None
    return BackupSchedule(
        settings.backup_directory,
        timedelta(hours=settings.backup_every_hours),
        settings.backup_keep,
        lambda path, on_progress: write_backup(
            services, path, with_indexes=settings.backup_indexes, on_progress=on_progress
        ),
    )


def settings_without_secrets(settings: Settings) -> dict[str, object]:
    """The explicitly set settings, without secrets and without passwords in URLs."""
    return {
        name: _shown(name, getattr(settings, name))
        for name in sorted(settings.model_fields_set)
        if _is_shown(settings, name)
    }


def _is_shown(settings: Settings, name: str) -> bool:
    return not isinstance(getattr(settings, name), SecretStr)


def _shown(name: str, value: Any) -> object:
    if name in _URLS and value:
        parts = urlsplit(value)
        user = f"{parts.username}@" if parts.username and name == "database_url" else ""
        return parts._replace(netloc=user + parts.netloc.rpartition("@")[2], query="").geturl()
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def require_stopped(settings: Settings) -> None:
    """Raise ConflictError while a process with this home may write."""
    running = [record.pid for record in find_services(settings.home) if _answers(record)]
    if running or is_worker_running(settings.home):
        what = f"the process {running[0]} serves" if running else "a worker runs"
        raise ConflictError(f"{what.capitalize()} from {settings.home}: stop it before restoring.")


def _answers(record: Any) -> bool:
    connection = connect_to_service(record)
    if connection is not None:
        connection.close()
    return connection is not None


def is_in_use(settings: Settings) -> bool:
    """Whether the catalog exists and is not empty, or is damaged."""
    engine = connect(settings.catalog_url)
    try:
        file = file_of(engine)
        if file is not None and not file.exists():
            return False
        check_catalog(settings)
        return is_filled(engine)
    except DamagedCatalogError:
        return True
    finally:
        engine.dispose()


def restore_files(settings: Settings, backup: BackupReader) -> int:
    with private_files():
        prepare_home(settings.home)
        return backup.put_files(FolderBlobStore(settings.home / "files"))


def restore_catalog(settings: Settings, backup: BackupReader) -> Path | None:
    """Restore the catalog atomically. Returns the folder to which the previous catalog's file was moved, or None."""
    pages = backup.catalog_pages()
    with private_files():
        prepare_home(settings.home)
        engine = connect(settings.catalog_url)
        try:
            file = file_of(engine)
            if file is None:
                _load(settings.catalog_url, backup.facts.revision, pages)
                return None
        finally:
            engine.dispose()
        draft = file.with_name(f"{file.name}.restoring")
        _remove(draft)
        _load(f"sqlite:///{draft.as_posix()}", backup.facts.revision, pages)
        aside = _put_aside(file)
        os.replace(draft, file)
        return aside


def _load(url: str, revision: str, pages: Iterable[tuple[str, list[dict[str, object]]]]) -> None:
    engine = connect(url)
    try:
        load(engine, revision, pages)
    except GircseError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"The backup has invalid rows: {error}.") from error
    finally:
        engine.dispose()


def _put_aside(file: Path) -> Path | None:
    """Move the database to a new folder, with its -wal and -shm files, without which it is incomplete."""
    if not file.exists():
        return None
    folder = file.with_name(f"{file.name}.{utc_now().strftime('%Y%m%dT%H%M%SZ')}.replaced")
    folder.mkdir(mode=0o700)
    for name in _names(file):
        if name.exists():
            shutil.move(name, folder / name.name)
    return folder


def _remove(file: Path) -> None:
    for name in _names(file):
        name.unlink(missing_ok=True)


def _names(file: Path) -> list[Path]:
    return [file.with_name(f"{file.name}{ending}") for ending in ("", "-wal", "-shm")]
