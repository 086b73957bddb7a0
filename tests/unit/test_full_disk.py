"""A disk that is full is named by every part that writes, with what to do, and no half file stays behind."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg.errors
import pytest
from api_application import api_of
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from httpx import Headers
from qdrant_client.http.exceptions import UnexpectedResponse
from sqlalchemy import create_engine

from app.api.problems import add_problem_handlers
from app.catalog.engine import unavailable
from app.documents.blobs import FolderBlobStore
from app.errors import CatalogUnavailableError, FilesUnavailableError, UnavailableError, full_disk_translated
from app.maintenance.archive import ArchiveWriter
from app.settings import Settings
from app.types.documents import Lens
from app.types.texts import TextPart
from app.vectors.errors import translated
from app.wiring.catalog import open_catalog
from ingest.spooled_files import SpooledText

FULL = r"^The disk of .*{} is full\. Free some space"
SIZES = {"little": 10, "much": 3_000_000}  # the first is written when the file is closed


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"only root may mount a small disk: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(bytes(65536)):
            pass


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("write", [FolderBlobStore.put, lambda store, data: store.put_text("a" * 64, [data.hex()])])
def test_a_stored_file(disk: Path, size: str, write: Callable[[FolderBlobStore, bytes], object]) -> None:
    store = FolderBlobStore(disk / "files")
    (disk / "files").mkdir()
    fill(disk)
    with pytest.raises(FilesUnavailableError, match=FULL.format("small/files")):
        write(store, os.urandom(SIZES[size]))
    assert list((disk / "files").iterdir()) == []


@pytest.mark.parametrize("size", SIZES)
def test_an_archive(disk: Path, size: str) -> None:
    fill(disk)
    with (
        pytest.raises(FilesUnavailableError, match=FULL.format("small")),
        full_disk_translated(disk),
        ArchiveWriter(disk / "backup.tar.gz") as archive,
    ):
        archive.add("collection.json", os.urandom(SIZES[size]))
    assert [each.name for each in disk.iterdir()] == ["ballast"]


def test_the_catalog_in_a_file(disk: Path) -> None:
    with open_catalog(Settings(home=disk)) as catalog:
        fill(disk)
        with pytest.raises(CatalogUnavailableError, match=FULL.format(r"small/catalog\.db")):
            catalog.save_lens(Lens("A long one", "Find texts. " * 1_000_000))


def test_the_catalog_on_a_server() -> None:
    said = str(unavailable(create_engine("postgresql+psycopg://me:hidden@db/gircse"), psycopg.errors.DiskFull("x")))
    assert said.startswith("The disk of the catalog postgresql+psycopg://me:***@db/gircse is full. Free")


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN])
def test_the_disk_of_a_catalog_that_became_read_only(code: int) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    said = str(unavailable(create_engine("sqlite:////home/catalog.db"), error))
    assert "disk I/O error. Check that its disk is mounted, writable" in said
    assert "GIRCSE_DATABASE_URL" not in said


@pytest.mark.parametrize("is_of_middleware", [False, True])
def test_a_system_without_further_threads(is_of_middleware: bool) -> None:
    api = FastAPI()
    add_problem_handlers(api)

    @api.get("/api/v1/thread")
    async def start_thread() -> None:
        if not is_of_middleware:
            start_refused_thread()

    @api.middleware("http")
    async def start_another(request: Request, call_next: Callable[[Request], Any]) -> Any:
        if is_of_middleware:
            start_refused_thread()
        return await call_next(request)

    with TestClient(api, raise_server_exceptions=False) as client:
        answer = client.get("/api/v1/thread")
    assert (answer.status_code, answer.json()["title"]) == (503, "ExhaustedError")
    assert answer.headers["retry-after"] == "5"


def start_refused_thread() -> None:
    """Asks for a stack that no system grants, which fails as at the limit on threads."""
    former = threading.stack_size(2**46)
    try:
        threading.Thread(target=print).start()
    finally:
        threading.stack_size(former)


def test_the_vector_index() -> None:
    body = b'{"status": {"error": "Service internal error: No space left on device (os error 28)"}}'
    error = translated(UnexpectedResponse(500, "Internal Server Error", body, Headers()), "library")
    assert isinstance(error, UnavailableError)
    assert str(error).startswith("The disk of the vector index is full. Free")


def test_texts_on_their_way(disk: Path) -> None:
    fill(disk)
    with pytest.raises(FilesUnavailableError, match=FULL.format("small")), SpooledText(disk) as text:
        text.write(TextPart("a long text " * 1_000_000))


@pytest.mark.parametrize("place", ["files", "temporary files"])
def test_an_upload_is_refused_with_the_reason(
    disk: Path, place: str, toy_services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_services.services.library.ensure_collection("library")
    if place == "files":
        (toy_services.services.settings.home / "files").symlink_to(disk)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
    fill(disk)
    with TestClient(api_of(toy_services.services)) as client:
        answer = client.post("/api/v1/documents", files={"file": ("a.txt", os.urandom(2_000_000).hex().encode())})
    assert (answer.status_code, answer.json()["title"]) == (503, "FilesUnavailableError")
    assert answer.json()["detail"].startswith("The disk of ")
    assert answer.headers["retry-after"] == "5"


def test_other_errors_of_the_system_stay_what_they_are() -> None:
    with pytest.raises(PermissionError), full_disk_translated(Path("/")):
        raise PermissionError(13, "Permission denied")
