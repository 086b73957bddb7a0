"""`gircse backup` and `restore`: while documents are being ingested, onto an empty machine, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from damaged_stores import LIBRARY, Installation
from fastapi.testclient import TestClient
from patience import PATIENCE_S, wait_until
from postgres_server import create_database, postgres_server
from qdrant_servers import SERVER, QdrantServer

import app.wiring.embedders
import app.wiring.services
from app.access.accounts import Accounts
from app.catalog.tables import Table
from app.commands.integrity_checks import check_backups
from app.commands.serve import running_worker
from app.commands.wiring import open_services
from app.commands.worker import worker_if_needed
from app.documents.blob_batch import layout_name
from app.documents.blobs import FolderBlobStore
from app.documents.layouts import layout_bytes
from app.errors import ArchiveError, UnavailableError
from app.maintenance.archive import ArchiveWriter, read_members
from app.maintenance.backup import BACKUP, BackupReader
from app.maintenance.backup_schedule import BackupSchedule, backup_name
from app.maintenance.held_files import holding_files
from app.testing import ToyEmbedder, text_source
from app.types.access import Role, WebSession
from app.types.documents import DocumentState
from app.types.texts import TextLayout

pytestmark = pytest.mark.xdist_group("backup-files")

DOCUMENTS = 9
WORDS = ("owl", "eel", "bat", "fox", "yak", "ant", "hen", "cod")


class SlowEmbedder(ToyEmbedder):
    """The last two documents wait for `released`, so that a backup before it is one under a running ingestion."""

    released = threading.Event()

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        time.sleep(0.02)
        if any(f"stone{DOCUMENTS - last}x" in text for text in texts for last in (1, 2)):
            assert self.released.wait(PATIENCE_S)
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@pytest.fixture(scope="module", autouse=True)
def toy_model() -> Iterator[None]:
    SlowEmbedder.released.set()
    with pytest.MonkeyPatch.context() as patch:
        for module in (app.wiring.embedders, app.wiring.services):
            patch.setattr(module, "embedder_for", lambda settings, **_: SlowEmbedder())
        yield


def long_text(number: int) -> str:
    """Too long to be ingested together with others."""
    word = WORDS[number % len(WORDS)]
    return f"{word}{number} " + "\n\n".join(
        f"The {word} of chapter {part} met stone{number}x{part}." * 6 for part in range(40)
    )


def documents_of(installation: Installation) -> dict[str, tuple[object, ...]]:
    with open_services(installation.load_settings()) as services:
        found = services.catalog.documents(limit=1_000)
        return {
            each.uri: (each.id, each.title, each.content_hash, each.state, each.chunk_count, dict(each.metadata))
            for each in found
        }


def hits(client: TestClient) -> list[Any]:
    answers = [
        client.post("/api/v1/search", json={"query": query, "collection": LIBRARY, "limit": 20, "mode": mode}).json()
        for query in ("owl8 stone8x3", "the fox of chapter 7", "yak")
        for mode in ("dense", "sparse", "hybrid")
    ]
    return [
        [(hit["chunk"]["id"], hit["chunk"]["text"], round(hit["score"], 5)) for hit in each["hits"]] for each in answers
    ]


def files_of(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "files").iterdir()}


SQLITE, POSTGRES = "SQLite", "PostgreSQL"
WAYS = [
    pytest.param(
        source, target, with_indexes, marks=[pytest.mark.long] if with_indexes or POSTGRES in (source, target) else []
    )
    for source in (SQLITE, POSTGRES)
    for target in (SQLITE, POSTGRES)
    for with_indexes in (False, True)
]


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["embedded", SERVER])
def installation_on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str, str], Installation]]:
    """Of a catalog on this database, and an index in the embedded engine or on a server."""
    with ExitStack() as opened:

        def build(name: str, catalog: str) -> Installation:
            settings: dict[str, str] = {}
            if catalog == POSTGRES:
                server, database = request.getfixturevalue("postgres_url"), f"{name}_{uuid.uuid4().hex}_test"
                create_database(server, database)
                settings["GIRCSE_DATABASE_URL"] = f"{server}/{database}"
            if request.param == "server":
                qdrant: QdrantServer = request.getfixturevalue("qdrant_server")
                settings["GIRCSE_QDRANT_URL"] = opened.enter_context(qdrant.with_own_names())
                settings |= {"GIRCSE_QDRANT_API_KEY": qdrant.api_key} if qdrant.api_key else {}
            return Installation(tmp_path / name, settings)

        yield build


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("source", "target", "with_indexes"), WAYS)
def test_a_backup_during_an_ingest_restored_on_an_empty_machine(
    installation_on: Callable[[str, str], Installation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    target: str,
    with_indexes: bool,
) -> None:
    before, file = installation_on("before", source), tmp_path / "backup.tar.zst"
    monkeypatch.setattr(SlowEmbedder, "released", threading.Event())
    with open_services(before.load_settings()) as services, worker_if_needed(services) as ensure_working:
        services.library.ensure_collection(LIBRARY)
        for number in range(DOCUMENTS):
            services.library.add_document(LIBRARY, text_source(f"text://{number}", long_text(number)))
        ensure_working()
        while services.catalog.count_documents(LIBRARY)[DocumentState.READY] < 2:
            time.sleep(0.01)
        before.call("backup", str(file), *(["--indexes"] if with_indexes else []))
        SlowEmbedder.released.set()
        while services.catalog.count_documents(LIBRARY)[DocumentState.READY] < DOCUMENTS:
            time.sleep(0.05)
    states = [row["state"] for table, rows in BackupReader(file).catalog_pages() if table == "document" for row in rows]
    assert set(states) == {"ready", "queued"}, "the ingestion was not under way"

    after = installation_on("after", target)
    printed = after.call("restore", str(file)).output
    assert "is damaged" not in printed
    assert (f"The index of '{LIBRARY}' is missing. A new one is built." in printed) is not with_indexes
    assert documents_of(after) == documents_of(before)
    assert files_of(after.home) == files_of(before.home)
    with before.serving() as old, after.serving() as new:
        assert hits(new) == hits(old)
        assert new.get("/readyz").json()["damaged"] == {}
    assert "agree" in after.call("check").stdout


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Three documents, a user, somebody who is logged in, a lens, and a backup of it all."""
    made = Installation(tmp_path_factory.mktemp("small") / "home")
    with open_services(made.load_settings()) as services:
        services.library.ensure_collection(LIBRARY)
        for number in range(3):
            services.library.add_document(LIBRARY, text_source(f"text://{number}", f"Ship {number} sails."))
        Accounts(services.catalog.access).add_user("ada", role=Role.READER, password="a password that is long")
        now = datetime.now(UTC)
        services.catalog.access.add_session(
            WebSession("t" * 64, "ada", "c" * 64, now, now + timedelta(days=1), "one", now)
        )
        with worker_if_needed(services) as ensure_working:
            ensure_working()
            while services.catalog.count_documents(LIBRARY)[DocumentState.READY] < 3:
                time.sleep(0.02)
    made.call("lenses", "save", "Same ship", "-i", "Identify the ship.")
    made.call("backup", str(made.home.parent / "small.tar.zst"))
    return made


@pytest.fixture
def file(small: Installation) -> Path:
    return small.home.parent / "small.tar.zst"


def test_what_is_in_use_is_not_overwritten_by_mistake(small: Installation, file: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(small.home, home)
    installation = Installation(home)
    assert "--force" in installation.call("backup", str(file), code=1).output
    with closing(sqlite3.connect(home / "catalog.db")) as database:
        database.execute("DELETE FROM lens")
        database.commit()
    assert "--force" in installation.call("restore", str(file), code=1).output
    assert "Same ship" not in installation.call("lenses", "list").stdout
    with open_services(installation.load_settings()) as services, running_worker(services):
        assert "stop it before" in installation.call("restore", str(file), "--force", code=1).output
    installation.call("restore", str(file), "--force")
    assert "Same ship" in installation.call("lenses", "list").stdout
    [former] = home.glob("catalog.db.*.replaced")
    with closing(sqlite3.connect(former / "catalog.db")) as database:
        assert database.execute("SELECT count(*) FROM lens").fetchone() == (0,)


@pytest.mark.parametrize("damage", ["a bit", "cut", "no archive", "another format"])
def test_a_damaged_backup_changes_nothing(damage: str, small: Installation, file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar.zst"
    data = bytearray(file.read_bytes())
    if damage == "a bit":
        data[len(data) // 2] ^= 4
    broken.write_bytes(b"text" if damage == "no archive" else data[:-40] if damage == "cut" else data)
    if damage == "another format":
        broken.unlink()
        small.call("export", LIBRARY, str(broken))
    with pytest.raises(ArchiveError):
        BackupReader(broken)
    empty = Installation(tmp_path / "home")
    assert empty.call("restore", str(broken), code=1).output
    assert not (empty.home / "catalog.db").exists()
    assert not (empty.home / "files").exists()


def test_no_secret_is_in_a_backup(tmp_path: Path, small: Installation) -> None:
    file = tmp_path / "backup.tar.gz"
    secrets = {
        "GIRCSE_ADMIN_SECRET": "a secret of the admin, of 32 characters",
        "GIRCSE_EMBEDDER_API_KEY": "key-of-the-embedder",
        "GIRCSE_RERANK_URL": "http://someone:in-the-address@localhost:1/rerank?key=in-the-query",
        "GIRCSE_RERANK_BY": "server",
    }
    Installation(small.home, secrets).call("backup", str(file))
    contents = {member.name: member.read() for member in read_members(file, BACKUP)}
    for secret in (*secrets.values(), "in-the-address", "in-the-query", "a password that is long"):
        if secret != "server":
            assert not any(secret.encode() in content for content in contents.values())
    about = json.loads(contents["backup.json"])
    assert about["settings"]["rerank_url"] == "http://localhost:1/rerank"
    tables = {name.split("/")[1] for name in contents if name.startswith("catalog/")}
    assert {"user_account", "document", "lens"} <= tables <= {table.name for table in Table.metadata.tables.values()}
    assert tables.isdisjoint({"web_session", "login_attempt"})
    assert file.stat().st_mode & 0o077 == 0


def packed_files(path: Path, members: dict[str, bytes]) -> Path:
    about = {"revision": "", "made_at": "", "release": "", "lost": []}
    with ArchiveWriter(path, BACKUP) as archive:
        for name, data in members.items():
            archive.add(name, data)
        archive.add("backup.json", json.dumps(about).encode())
    return path


def test_sound_layouts_and_texts_are_not_replaced(tmp_path: Path) -> None:
    """`gircse restore FILE --files` is safe at any time, also with an untrusted file."""
    blobs, content = FolderBlobStore(tmp_path / "files"), b"A text."
    content_hash = blobs.put(content)
    blobs.put_text(content_hash, ["A text."])
    sound, other = (TextLayout(page_starts=(0, start)) for start in (2, 3))
    blobs.put_layout(content_hash, sound)
    members = {
        f"files/{content_hash}": content,
        f"texts/{content_hash}": b"Another.",
        f"layouts/{content_hash}": b"".join(layout_bytes(other)),
    }
    backup = packed_files(tmp_path / "a.tar.zst", members)
    BackupReader(backup).put_files(blobs)
    assert blobs.get_text(content_hash) == "A text."
    assert tuple(blobs.layout(content_hash, 0, 7).page_starts) == (0, 2)
    (tmp_path / "files" / layout_name(content_hash)).unlink()
    BackupReader(backup).put_files(blobs)
    assert tuple(blobs.layout(content_hash, 0, 7).page_starts) == (0, 3)


def test_a_file_with_another_content_than_its_name_says_is_not_restored(tmp_path: Path) -> None:
    blobs, content_hash = FolderBlobStore(tmp_path / "files"), hashlib.sha256(b"A text.").hexdigest()
    backup = packed_files(tmp_path / "a.tar.zst", {f"files/{content_hash}": b"Another."})
    with pytest.raises(ArchiveError, match="altered"):
        BackupReader(backup).put_files(blobs)
    assert list(blobs.hashes()) == []


def test_a_file_that_is_discarded_meanwhile_is_still_packed(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path / "files")
    early = blobs.put(b"early")
    with holding_files(tmp_path / "files") as held:
        late = blobs.put(b"late")
        held.take()
        blobs.discard(early, is_needed=lambda: False)
        blobs.discard(late, is_needed=lambda: False)
        assert (held.file(early).read_bytes(), held.file(late).read_bytes()) == (b"early", b"late")
        assert list(blobs.hashes()) == []
    assert list((tmp_path / "files").iterdir()) == []


def test_a_backup_tells_of_files_that_are_lost_already(small: Installation, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(small.home, home)
    [*stored] = (path for path in (home / "files").iterdir() if len(path.name) == 64)
    stored[0].write_bytes(b"altered")
    stored[1].unlink()
    told = Installation(home).call("backup", str(tmp_path / "b.tar.zst"), code=1).output
    assert told.count("text://") == 2
    assert len(BackupReader(tmp_path / "b.tar.zst").facts.lost) == 2


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_backup_moves_between_databases(
    installation_on: Callable[[str, str], Installation], small: Installation, file: Path, tmp_path: Path
) -> None:
    there = installation_on("there", POSTGRES)
    there.call("restore", str(file))
    assert documents_of(there) == documents_of(small)
    assert "--force" in there.call("restore", str(file), code=1).output
    there.call("restore", str(file), "--force")
    there.call("backup", str(tmp_path / "back.tar.zst"))
    back = Installation(tmp_path / "back")
    back.call("restore", str(tmp_path / "back.tar.zst"))
    assert documents_of(back) == documents_of(small)
    with small.serving() as one, there.serving() as other, back.serving() as third:
        assert hits(one) == hits(other) == hits(third)
    with open_services(there.load_settings()) as services:  # what counts rows goes on
        Accounts(services.catalog.access).add_user("bob", role=Role.READER, password="another password, long")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_scheduled_backups_come_in_time_and_the_oldest_go(tmp_path: Path) -> None:
    clock = Clock()
    schedule = BackupSchedule(
        tmp_path / "b", timedelta(hours=24), 2, lambda path, tell: path.write_text("backup"), clock
    )
    made = []
    for _ in range(4):
        made.append(schedule.run_once())
        assert schedule.run_once() is None
        clock.now += timedelta(hours=23)
        assert schedule.run_once() is None
        (tmp_path / "b" / "my-own.tar.zst").touch()
        clock.now += timedelta(hours=1)
    assert all(made)
    kept = sorted(path.name for path in (tmp_path / "b").glob("*.zst"))
    assert kept == sorted([*(path.name for path in made[-2:] if path), "my-own.tar.zst"])
    (tmp_path / "b" / backup_name(clock.now + timedelta(days=400))).touch()  # made while the clock was wrong
    assert schedule.run_once() is not None


def test_a_scheduled_backup_that_fails_leaves_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    asked = threading.Event()

    def fail(path: Path, tell: object) -> None:
        asked.set()
        raise UnavailableError("the disk is full")

    (tmp_path / backup_name(clock.now - timedelta(days=9))).touch()
    stop = threading.Event()
    schedule = BackupSchedule(tmp_path, timedelta(hours=1), 1, fail, clock)
    thread = threading.Thread(target=schedule.run, args=(stop,))
    thread.start()
    assert asked.wait(PATIENCE_S)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert "the disk is full" in caplog.text
    assert len(list(tmp_path.glob("*.zst"))) == 1


@pytest.mark.parametrize("catalog", [SQLITE, pytest.param(POSTGRES, marks=pytest.mark.long)])
def test_the_worker_makes_them_and_doctor_looks_after_them(
    small: Installation, file: Path, installation_on: Callable[[str, str], Installation], tmp_path: Path, catalog: str
) -> None:
    made = installation_on("home", catalog)
    made.call("restore", str(file), "--no-rebuild")
    installation = Installation(
        made.home, {**made.settings, "GIRCSE_BACKUP_DIRECTORY": str(tmp_path / "b"), "GIRCSE_BACKUP_KEEP": "1"}
    )
    settings = installation.load_settings()
    assert not check_backups(settings).is_well
    former = tmp_path / "b" / backup_name(datetime.now(UTC) - timedelta(days=3))
    former.parent.mkdir()
    former.touch()
    with open_services(settings) as services, running_worker(services):
        wait_until(lambda: not former.exists())  # one is kept: the new one is whole by then
    [new] = (tmp_path / "b").glob("gircse-*.tar.zst")
    assert BackupReader(new).facts.documents == 3
    assert str(new) in check_backups(settings).detail
    assert check_backups(settings).is_well
    old = new.with_name(backup_name(datetime.now(UTC) - timedelta(days=5)))
    new.rename(old)
    assert not check_backups(settings).is_well
