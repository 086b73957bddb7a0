"""Every check of `gircse doctor`, once where all is well and once with the thing broken."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import forget_settings
from openid_provider import openid_provider
from pydantic import SecretStr
from served import in_thread
from typer.testing import CliRunner

from app.catalog import CatalogFacts, connect, upgrade
from app.cli import app
from app.commands import checks
from app.commands.checks import CHECKS
from app.commands.findings import Finding, ask
from app.commands.wiring import open_services
from app.settings import Settings
from app.testing import text_source
from app.wiring import catalog as catalog_wiring


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def finding(home: Path) -> Callable[..., Finding]:
    def find(part: str, **settings: Any) -> Finding:
        return ask(CHECKS[part], Settings(home=home, **settings))

    return find


def assert_well(finding: Finding) -> None:
    assert finding.is_well, finding
    assert not finding.advice


def assert_ill(finding: Finding, *, detail: str, advice: str) -> None:
    assert not finding.is_well, finding
    assert detail in finding.detail
    assert advice in finding.advice


def test_versions(finding: Callable[..., Finding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_well(finding("versions"))
    old = tmp_path / "old" / "transformers-4.0.0.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 4.0.0\n", "utf-8")
    monkeypatch.syspath_prepend(old.parent)
    assert_ill(finding("versions"), detail="transformers 4.0.0 (needed: ", advice="pip install 'gircse-search[app]'")


def test_device(finding: Callable[..., Finding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_well(finding("device"))
    assert_well(finding("device", embedder_url="http://127.0.0.1:1"))
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: nothing is broken")
    assert_ill(finding("device", device="cuda:0"), detail="finds no GPU", advice="Unset GIRCSE_DEVICE")
    driver = tmp_path / "bin" / "nvidia-smi"
    driver.parent.mkdir()
    driver.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(driver.parent), prepend=os.pathsep)
    assert_ill(finding("device"), detail="there is an NVIDIA driver", advice="CUDA build of torch")
    assert_well(finding("device", device="cpu"))


def test_disk(finding: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MIN_FREE_GB", 0.0)
    assert_well(finding("disk"))
    monkeypatch.setattr(checks, "MIN_FREE_GB", 1e9)  # more than any disk has
    assert_ill(finding("disk"), detail="GB free", advice="Free some space")


def test_memory(finding: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MIN_MEMORY_GB", 0.0)
    assert_well(finding("memory"))
    monkeypatch.setattr(checks, "MIN_MEMORY_GB", 1e9)
    assert_ill(finding("memory"), detail="GB for this process", advice="The system kills processes")


class TestPermissions:
    def test_a_home_that_others_may_write_into(self, finding: Callable[..., Finding], home: Path) -> None:
        assert_well(finding("permissions"))
        home.chmod(0o775)
        assert_well(finding("permissions"))  # it was closed
        (home / "notes.txt").touch()  # not ours: who put it here may want the folder as it is
        home.chmod(0o775)
        assert_ill(finding("permissions"), detail="other users can write to", advice=f"chmod go= {home}")

    def test_a_secret_that_others_may_read(
        self, finding: Callable[..., Finding], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        open_folder = Path("/tmp") / f"gircse-doctor-{os.getpid()}"  # pytest's own folders let nobody else in
        open_folder.mkdir(mode=0o755)
        try:
            secret = open_folder / "key"
            secret.write_text("x", "ascii")
            monkeypatch.setenv("GIRCSE_ADMIN_SECRET_FILE", str(secret))
            secret.chmod(0o600)
            assert_well(finding("permissions"))
            secret.chmod(0o644)
            assert_ill(finding("permissions"), detail="other users can read the secret", advice=f"chmod go= {secret}")
            open_folder.chmod(0o700)
            assert_well(finding("permissions"))  # as `make secrets` makes it: nobody gets as far as the file
        finally:
            for path in (*open_folder.iterdir(), open_folder):
                path.rmdir() if path.is_dir() else path.unlink()


def test_catalog(finding: Callable[..., Finding], home: Path) -> None:
    found = finding("catalog")
    assert_well(found)
    assert ", schema 00" in found.detail
    with closing(sqlite3.connect(home / "catalog.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    assert_ill(finding("catalog"), detail="Install that release", advice="")
    away = finding("catalog", database_url="postgresql://nobody@127.0.0.1:1/none")
    assert_ill(away, detail="Check GIRCSE_DATABASE_URL", advice="")
    assert "\n" not in away.detail


def test_clock(finding: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    assert_well(finding("clock"))
    monkeypatch.setattr(checks, "utc_now", lambda: datetime(1970, 1, 2, tzinfo=UTC))
    assert_ill(finding("clock"), detail="1970-01-02", advice="NTP")
    monkeypatch.undo()
    late = CatalogFacts("postgresql://…", "0003", datetime.now(UTC) + timedelta(minutes=2))
    monkeypatch.setattr(catalog_wiring, "describe_catalog", lambda settings: late)
    assert_ill(finding("clock"), detail="s from the database's clock", advice="Set the clocks")


def test_jobs(finding: Callable[..., Finding], home: Path) -> None:
    assert_well(finding("jobs"))
    engine = connect(f"sqlite:///{home / 'catalog.db'}")
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO collection (name, fingerprint, dimension, document_instruction, document_steps, chunk_tokens,"
            " chunk_overlap, active_index, is_paused, created_at)"
            " VALUES ('c', 'f', 3, '', 1, 200, 30, 'c--1', 0, '2026-01-01')"
        )
        connection.exec_driver_sql(
            "INSERT INTO job (id, kind, collection, document_id, state, attempts, pauses, progress, fencing_token,"
            " not_before, created_at) VALUES ('j', 'ingest', 'c', 'd', 'dead', 5, 0, 0, 1, '2026-01-01', '2026-01-01')"
        )
        connection.exec_driver_sql(
            "INSERT INTO job (id, kind, collection, document_id, state, attempts, pauses, progress, fencing_token,"
            " not_before, created_at) VALUES ('k', 'ingest', 'c', 'e', 'queued', 0, 0, 0, 1, '2126-01-01',"
            " '2026-01-01')"
        )
    engine.dispose()
    assert_ill(finding("jobs"), detail="1 dead", advice="gircse jobs retry")
    assert_ill(finding("jobs"), detail="1 leased or scheduled more than an hour ahead", advice="gircse worker")
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM job WHERE id = 'k'")
        connection.exec_driver_sql("UPDATE job SET attempts = 1")  # refused: the file is damaged, say
    assert_well(finding("jobs"))
    assert "1 dead (1 for unreadable documents" in finding("jobs").detail
    engine.dispose()
    assert_ill(finding("collections"), detail="embedded by another model: c", advice="gircse reindex")


def test_index(finding: Callable[..., Finding]) -> None:
    assert_well(finding("index"))
    assert_ill(finding("index", qdrant_url="http://127.0.0.1:1"), detail="GIRCSE_QDRANT_URL", advice="")


@pytest.fixture
def embedding_server() -> Iterator[tuple[str, dict[str, int]]]:
    """Answers with the status that the test sets for each path; a wrong key gets 401."""
    statuses = {"/readyz": 200, "/v1/models": 200}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_refused = self.path == "/v1/models" and self.headers["authorization"] != "Bearer right"
            self.send_response(401 if is_refused else statuses[self.path])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with in_thread(server):
        yield f"http://127.0.0.1:{server.server_port}", statuses


def test_embedder(finding: Callable[..., Finding], embedding_server: tuple[str, dict[str, int]]) -> None:
    url, statuses = embedding_server
    right, wrong = SecretStr("right"), SecretStr("wrong")
    assert_well(finding("embedder"))
    assert_well(finding("embedder", embedder_url=url, embedder_api_key=right))
    refused = finding("embedder", embedder_url=url, embedder_api_key=wrong)
    assert_ill(refused, detail="rejects the API key", advice="GIRCSE_EMBEDDER_API_KEY")
    statuses["/readyz"] = 503
    assert_ill(finding("embedder", embedder_url=url, embedder_api_key=right), detail="(503)", advice="See its log")
    away = finding("embedder", embedder_url="http://127.0.0.1:1")
    assert_ill(away, detail="does not respond", advice="gircse embedder")


def test_model(finding: Callable[..., Finding], tmp_path: Path) -> None:
    assert_well(finding("model"))
    assert_ill(finding("model", model=str(tmp_path / "none")), detail="none", advice="")


def test_json_holds_what_is_printed_and_the_exit_code_tells(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_HOME", str(home))
    well = CliRunner().invoke(app, ["doctor", "--json"])
    assert (well.exit_code, json.loads(well.stdout)["is_well"]) == (0, True)
    (home / "notes.txt").touch()
    home.chmod(0o777)
    ill = CliRunner().invoke(app, ["doctor", "--json"])
    told = json.loads(ill.stdout)
    assert (ill.exit_code, told["is_well"]) == (1, False)
    assert list(told["parts"]) == list(CHECKS)
    assert [part for part, found in told["parts"].items() if not found["is_well"]] == ["permissions"]
    printed = CliRunner().invoke(app, ["doctor"])
    assert printed.exit_code == 1
    assert "chmod go=" in " ".join(printed.stdout.split())


def test_the_provider_of_sign_ins_is_asked(finding: Callable[..., Finding]) -> None:
    assert_well(finding("sign-in"))
    given = {
        "access_control": True,
        "public_url": "https://search.example.org",
        "oidc_client_id": "search",
        "oidc_allowed": "*",
    }
    with openid_provider() as provider:
        found = finding("sign-in", oidc_issuer=provider.issuer, **given)
        assert_well(found)
        assert "https://search.example.org/login/openid/callback" in found.detail
        other = f"{provider.issuer}/"
        assert_ill(
            finding("sign-in", oidc_issuer=other, **given), detail=f"has the issuer {provider.issuer!r}", advice=""
        )
        issuer = provider.issuer
    assert_ill(finding("sign-in", oidc_issuer=issuer, **given), detail="does not respond", advice="GIRCSE_OIDC_ISSUER")


@pytest.mark.parametrize("change", ["dimension = 7", "document_steps = 4000", "vectors_per_chunk = 3"])
def test_a_row_of_a_collection_that_its_model_contradicts(
    finding: Callable[..., Finding], home: Path, change: str
) -> None:
    with open_services(Settings(home=home)) as services:
        services.library.ensure_collection("library")
    assert_well(finding("collections"))
    with closing(sqlite3.connect(home / "catalog.db")) as database:
        database.execute(f"UPDATE collection SET {change}")
        database.commit()
    assert_ill(
        finding("collections"), detail="steps or dimensions do not fit the model: library", advice="gircse restore"
    )


def test_a_row_that_refers_to_none_and_an_index_that_has_other_values_than_its_rows(
    finding: Callable[..., Finding], home: Path
) -> None:
    with open_services(Settings(home=home)) as services:
        services.library.ensure_collection("library")
        services.library.add_document("library", text_source("a.txt", "Cats sleep."))
    assert_well(finding("catalog"))
    with closing(sqlite3.connect(home / "catalog.db")) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("UPDATE document SET collection = 'lybrary'")
        database.commit()
    assert_ill(finding("catalog"), detail="refers to a missing row of collection", advice="")
    with closing(sqlite3.connect(home / "catalog.db")) as database:
        database.execute("UPDATE document SET collection = 'library', state = 'reaey'")
        database.commit()
    assert_ill(finding("catalog"), detail="a row holds a value that the catalog never writes", advice="")


def test_a_catalog_that_is_older_than_the_points(
    finding: Callable[..., Finding], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after copying back an earlier catalog.db: documents, and whole collections, are missing."""
    monkeypatch.setenv("GIRCSE_HOME", str(home))

    def ingest(text: str, collection: str) -> None:
        file = tmp_path / f"{collection}.txt"
        file.write_text(text, "utf-8")
        done = CliRunner().invoke(app, ["ingest", str(file), "--collection", collection, "--wait"])
        assert done.exit_code == 0, done.output

    ingest("Cats sleep all day.", "animals")
    earlier = (home / "catalog.db").read_bytes()
    ingest("Rivers carry sand to the sea.", "rivers")
    ingest("Cats sleep all day. Dogs bark at night, and owls hunt. " * 60, "animals")
    assert_well(finding("rows"))
    for beside in home.glob("catalog.db-*"):
        beside.unlink()
    (home / "catalog.db").write_bytes(earlier)
    assert_ill(finding("rows"), detail="points without a chunk", advice="gircse check")
    assert "1 indexes that no collection names" in finding("rows").detail
