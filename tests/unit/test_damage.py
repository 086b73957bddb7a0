"""Damage is named by doctor and /readyz, explained by searches, and mended by the command that is named."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from damaged_stores import (
    FILE_DAMAGE,
    INDEX_DAMAGE,
    LIBRARY,
    OTHER,
    POSTGRES_DAMAGE,
    SQLITE_DAMAGE,
    Installation,
    alter,
    flip_bit,
    text_of,
)
from fastapi.testclient import TestClient
from patience import wait_until
from postgres_server import create_database, postgres_server

import app.wiring.embedders
import app.wiring.services
from app.commands.wiring import open_catalog, open_services
from app.maintenance.backup_schedule import backup_name
from app.services import Services
from app.testing import ToyEmbedder
from app.types.documents import utc_now

pytestmark = [pytest.mark.xdist_group("damage"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def toy_model() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (app.wiring.embedders, app.wiring.services):
            patch.setattr(module, "embedder_for", lambda settings, **_: ToyEmbedder())
        yield


@dataclass(frozen=True)
class Whole:
    """An installation that is never damaged itself; its sources and a backup lie beside it."""

    installation: Installation
    documents: int
    backup: Path
    server: str = ""

    @property
    def source(self) -> Path:
        return self.installation.home.parent / "source"

    def copy(self, home: Path) -> Installation:
        # Files of the engine are mostly holes.
        subprocess.run(["cp", "-a", "--sparse=always", str(self.installation.home), str(home)], check=True)
        settings = {"GIRCSE_BACKUP_DIRECTORY": str(self.backup.parent)}
        if self.server:
            name = f"{uuid.uuid4().hex}_test"
            create_database(self.server, name, template="whole_test")
            settings["GIRCSE_DATABASE_URL"] = f"{self.server}/{name}"
        return Installation(home, settings)


@pytest.fixture(scope="module", params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.long)])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    documents = 200 if request.config.getoption("--long") else 12
    folder = tmp_path_factory.mktemp("whole")
    backup = folder / "backups" / backup_name(utc_now())
    with ExitStack() as opened:
        server, settings = "", {}
        if request.param == "PostgreSQL":
            server = opened.enter_context(postgres_server())
            create_database(server, "whole_test")
            settings = {"GIRCSE_DATABASE_URL": f"{server}/whole_test"}
        made = Installation(folder / "home", settings)
        made.fill(documents, folder / "source")
        made.call("backup", str(backup))
        yield Whole(made, documents, backup, server)


@pytest.fixture
def installation(whole: Whole, tmp_path: Path) -> Iterator[Installation]:
    made = whole.copy(tmp_path / "home")
    yield made
    made.engine.stop()


def damaged_parts(installation: Installation, *options: str) -> dict[str, str]:
    """What doctor fails, and what it says to do; of parts that these tests are about."""
    told = json.loads(installation.call("doctor", "--json", *options, code=1).stdout)["parts"]
    failed = {part: f"{found['detail']} {found['advice']}" for part, found in told.items() if not found["is_well"]}
    return {part: said for part, said in failed.items() if part in ("damage", "files", "catalog")}


def require_whole(installation: Installation, documents: int) -> None:
    installation.call("doctor", "--files", code=0)
    with installation.serving() as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["damaged"]) == (200, {}), answer.text
        assert found_documents(client, documents) == documents
        assert search(client, "ship", OTHER).status_code == 200


def found_documents(client: TestClient, documents: int) -> int:
    """How many are the first that their own text finds."""
    count = 0
    for number in range(documents):
        hits = search(client, text_of(number)).json()["hits"]
        count += bool(hits) and hits[0]["chunk"]["text"] == text_of(number)
    return count


def search(client: TestClient, query: str, collection: str = LIBRARY) -> Any:
    return client.post("/api/v1/search", json={"query": query, "collection": collection, "limit": 3})


def named_command(said: str) -> list[str]:
    """The first one."""
    found = re.search(r"gircse ((?:doctor|restore \S+) --\w+)", said)
    assert found, said
    return shlex.split(found[1])


def kinds(damage: Mapping[str, object], quick: str) -> list[Any]:
    """One that is always run, and the others."""
    return [pytest.param(kind, marks=() if kind == quick else pytest.mark.long) for kind in damage]


@pytest.mark.parametrize("kind", kinds(INDEX_DAMAGE, "vectors cut"))
def test_a_damaged_index(kind: str, installation: Installation, whole: Whole) -> None:
    INDEX_DAMAGE[kind](installation)
    installation.start_engine()
    is_all_lost = kind in ("edge/ removed", "the table of indexes cut")
    with installation.serving() as client:
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert set(ready.json()["damaged"]) == ({LIBRARY, OTHER} if is_all_lost else {LIBRARY})
        refused = search(client, "owl")
        assert (refused.status_code, refused.json()["title"]) == (503, "DamagedIndexError")
        assert f"{LIBRARY!r} is damaged" in refused.json()["detail"]
        assert "gircse doctor --rebuild" in refused.json()["detail"]
        if not is_all_lost:
            assert search(client, "ship", OTHER).json()["hits"]
    said = damaged_parts(installation)
    assert list(said) == ["damage"]
    assert LIBRARY in said["damage"]
    installation.call(*named_command(said["damage"]))
    require_whole(installation, whole.documents)


@pytest.mark.parametrize("kind", kinds(FILE_DAMAGE, "a stored file overwritten"))
def test_a_damaged_stored_file(kind: str, installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    path = installation.stored_file()
    before = path.read_bytes()
    with open_catalog(installation.load_settings()) as catalog:
        document_id = next(each.id for each in catalog.documents(limit=100) if each.content_hash == path.name)
    FILE_DAMAGE[kind](installation)
    said = damaged_parts(installation, "--files")
    assert list(said) == ["files"]
    with installation.serving() as client:
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert any("stored files missing or altered: 1" in each for each in ready.json()["damaged"].values())
        content = client.get(f"/api/v1/documents/{document_id}/content")
        assert content.status_code in (404, 500)
        assert "restore" in content.json()["detail"]
        assert search(client, "owl").status_code == 200  # what is found needs no files
        assert named_command(said["files"]) == ["restore", str(whole.backup), "--files"]
        installation.call(*named_command(said["files"]))  # while it is served
        assert client.get(f"/api/v1/documents/{document_id}/content").content == before
        assert client.get("/readyz").status_code == 200
    assert path.read_bytes() == before
    require_whole(installation, whole.documents)


@pytest.mark.long
def test_a_damaged_file_is_mended_by_handing_it_in_again(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    damaged = [path for path in (installation.home / "files").iterdir() if len(path.name) == 64]
    for path in damaged:
        alter(path)
    installation.call("ingest", str(whole.source), "-c", LIBRARY)
    with installation.serving() as client:
        for number in range(3):
            assert client.post(
                "/api/v1/documents",
                json={"text": f"Ship {number} sails.", "uri": f"text://{number}", "collection": OTHER},
            ).is_success
    require_whole(installation, whole.documents)


@pytest.mark.long
def test_a_lost_text_is_read_again(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    for path in (installation.home / "files").glob("*.txt"):
        path.unlink()
    said = damaged_parts(installation)
    assert f"extracted texts missing or altered: {whole.documents + 4}" in said["files"]
    installation.call(*named_command(said["files"]))
    require_whole(installation, whole.documents)


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_damaged_catalog(number: int, installation: Installation, whole: Whole) -> None:
    damage = [*(POSTGRES_DAMAGE if whole.server else SQLITE_DAMAGE).values()][number]
    damage(installation)
    assert "is damaged" in installation.call("documents", "list", "-c", LIBRARY, code=1).output
    if not whole.server:  # of which each command sees the tables that it reads
        for command in (("search", "owl", "-c", LIBRARY, "--local"), ("worker",)):
            assert "is damaged" in installation.call(*command, code=1).output
    said = damaged_parts(installation)
    assert named_command(said["catalog"]) == ["restore", str(whole.backup), "--force"]
    installation.call(*named_command(said["catalog"]))
    assert whole.server or list(installation.home.glob("catalog.db.*.replaced/catalog.db"))
    require_whole(installation, whole.documents)


def test_damage_to_a_catalog_that_is_open_is_noticed(installation: Installation, whole: Whole) -> None:
    with open_services(installation.load_settings()) as services, TestClient(api_of(services)) as client:
        services.integrity.check_indexes()
        assert client.get("/readyz").status_code == 200
        if whole.server:
            POSTGRES_DAMAGE["a table of the catalog dropped"](installation)
            services.integrity.check_files()
        else:
            SQLITE_DAMAGE["pages of the catalog zeroed"](installation)
            services.integrity.check_catalog()
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert "gircse doctor" in ready.json()["damaged"]["the catalog"]


@pytest.mark.long
def test_an_index_that_is_damaged_under_a_running_service(installation: Installation, whole: Whole) -> None:
    with installation.serving() as client:
        assert search(client, "owl").status_code == 200
        INDEX_DAMAGE["vectors cut"](installation)
        refused = search(client, "owl")
        assert (refused.status_code, refused.json()["title"]) == (503, "DamagedIndexError")
        assert search(client, "ship", OTHER).json()["hits"]
        assert client.get("/readyz").json()["damaged"].keys() == {LIBRARY}
        installation.call("doctor", "--rebuild")  # which finds the engine of the service
        assert search(client, "owl").status_code == 200
    require_whole(installation, whole.documents)


REMOVED_WHILE_OPEN: dict[str, Callable[[Installation], object]] = {
    "an index": lambda it: shutil.rmtree(it.shard()),
    "edge/": lambda it: shutil.rmtree(it.edge),
}


@pytest.mark.long
@pytest.mark.parametrize("what", REMOVED_WHILE_OPEN)
def test_files_that_are_removed_while_they_are_mapped(what: str, installation: Installation, whole: Whole) -> None:
    """They answer as before; what is written into them is gone when they are closed."""
    with installation.serving() as client:
        assert search(client, "owl").status_code == 200
        REMOVED_WHILE_OPEN[what](installation)
        wait_until(lambda: search(client, "owl").status_code == 503)
        assert search(client, "owl").json()["title"] == "DamagedIndexError"
        assert LIBRARY in client.get("/readyz").json()["damaged"]
        installation.call(*named_command(damaged_parts(installation)["damage"]))
        wait_until(lambda: search(client, "owl").status_code == 200)
    require_whole(installation, whole.documents)


@pytest.mark.long
def test_a_catalog_that_is_removed_under_a_running_service(installation: Installation, whole: Whole) -> None:
    if whole.server:
        pytest.skip("a server looks after its own files")
    with installation.serving() as client:
        (installation.home / "catalog.db").unlink()
        answer = client.post("/api/v1/documents", json={"text": "It would be lost.", "collection": OTHER})
        assert answer.status_code == 503
        assert "removed or replaced" in answer.json()["detail"]
        ready = client.get("/readyz")
        assert (ready.status_code, [*ready.json()["damaged"]]) == (503, ["the catalog"])
    for path in installation.home.glob("catalog.db*"):
        path.unlink()
    said = damaged_parts(installation)
    assert "though files of documents are in" in said["catalog"]
    assert installation.call("check", "--fix", code=1)  # to which all stored files would be unneeded
    installation.call(*named_command(said["catalog"]))
    require_whole(installation, whole.documents)


def test_other_collections_go_on_while_one_is_made_anew(
    installation: Installation, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []
    with installation.serving() as client, open_services(installation.load_settings()) as services:

        class Watching(ToyEmbedder):
            """Looks at the service in the middle of the work."""

            def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
                added = client.post("/api/v1/documents", json={"text": f"Ship {len(seen) + 7}.", "collection": OTHER})
                found, refused = search(client, "ship", OTHER), search(client, "owl")
                is_there = services.index.exists(damaged)
                seen.append(
                    (found.status_code, bool(found.json()["hits"]), added.status_code, refused.status_code, is_there)
                )
                return super().embed_documents(texts, instruction=instruction, steps=steps)

        INDEX_DAMAGE["vectors cut"](installation)
        damaged = services.catalog.collection(LIBRARY).active_index
        assert search(client, "owl").status_code == 503
        for module in (app.wiring.embedders, app.wiring.services):
            monkeypatch.setattr(module, "embedder_for", lambda settings, **_: Watching())
        told = installation.call("doctor", "--rebuild").output
        assert seen[0] == (200, True, 202, 503, True)
        assert search(client, "owl").status_code == 200
        assert not services.index.exists(damaged)  # nor its files
    assert "A new one is built beside it" in told
    require_whole(installation, whole.documents)


@pytest.mark.long
def test_some_lost_points_are_made_again_in_place(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    with open_services(installation.load_settings()) as services:
        name = services.catalog.collection(LIBRARY).active_index
        services.index.delete_points(name, [next(services.index.point_ids(name))])
    said = damaged_parts(installation)
    assert f"1 of its {whole.documents} chunks lack their points" in said["damage"]
    installation.call(*named_command(said["damage"]))
    with open_services(installation.load_settings()) as services:
        assert services.catalog.collection(LIBRARY).active_index == name
    require_whole(installation, whole.documents)


@pytest.mark.long
def test_a_home_whose_files_are_all_gone_is_restored(installation: Installation, whole: Whole) -> None:
    shutil.rmtree(installation.home)
    installation.call("restore", "--force", str(whole.backup))
    require_whole(installation, whole.documents)


def test_a_damaged_text_is_told_refused_and_read_again(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    path = installation.kept_text()
    before = path.read_bytes()
    with open_catalog(installation.load_settings()) as catalog:
        document_id = next(each.id for each in catalog.documents(limit=100) if each.content_hash == path.stem)
    flip_bit(path, len(before) - 5)
    said = damaged_parts(installation, "--files")
    assert list(said) == ["files"]
    assert "extracted texts missing or altered: 1" in said["files"]
    with installation.serving() as client:
        damaged = client.get("/readyz").json()["damaged"]
        assert any("texts of files missing or altered: 1" in each for each in damaged.values())
        refused = client.get(f"/api/v1/documents/{document_id}/text")
        assert (refused.status_code, refused.json()["title"]) == (500, "DamagedFileError")
        assert str(path) in refused.json()["detail"]
        assert "gircse doctor --rebuild" in refused.json()["detail"]
        assert search(client, "owl").status_code == 200
        installation.call(*named_command(said["files"]))
        assert client.get(f"/api/v1/documents/{document_id}/text").status_code == 200
        assert client.get("/readyz").status_code == 200
    assert path.read_bytes() == before
    require_whole(installation, whole.documents)


def test_a_backup_leaves_a_damaged_text_out_and_does_not_fail(
    installation: Installation, whole: Whole, tmp_path: Path
) -> None:
    installation.start_engine()
    path = installation.kept_text()
    before = path.read_bytes()
    flip_bit(path, len(before) - 5)
    backup = tmp_path / "damaged.tar.zst"
    installation.call("backup", str(backup))
    installation.call("restore", str(whole.backup), "--files")  # of the backup of before
    assert path.read_bytes() == before
    flip_bit(path, len(before) - 5)
    installation.call("restore", str(backup), "--files")
    installation.call("doctor", "--rebuild")
    assert path.read_bytes() == before


def alter_point(services: Services, text: str) -> str:
    """Of the passage with this text another one is kept, under the hash of before. Its id."""
    name = services.catalog.collection(LIBRARY).active_index
    points = services.index.retrieve(name, [*services.index.point_ids(name)])
    [point] = [each for each in points if each.payload["page_content"] == text]
    payload = {**point.payload, "page_content": text.replace("lives", "liwes")}
    services.index.upsert(name, [replace(point, payload=payload)])
    return point.id


def test_a_hit_whose_text_is_damaged_says_so_and_the_others_are_found(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    text = text_of(3)
    with open_services(installation.load_settings()) as services:
        name = services.catalog.collection(LIBRARY).active_index
        alter_point(services, text)
    with installation.serving() as client:
        answer = search(client, text)
        assert answer.status_code == 200
        hits = answer.json()["hits"]
        assert [hit["chunk"]["is_damaged"] for hit in hits] == [True, False, False]
        [note] = answer.json()["notes"]
        assert "003.txt" in note
        assert "gircse doctor --rebuild" in note
        assert "texts of its chunks differ from what was written" in client.get("/readyz").json()["damaged"][LIBRARY]
    said = damaged_parts(installation)
    installation.call(*named_command(said["damage"]))
    with open_services(installation.load_settings()) as services:
        assert services.catalog.collection(LIBRARY).active_index == name  # made again in place
    require_whole(installation, whole.documents)


def test_a_damaged_point_stays_where_the_file_that_would_mend_it_is_damaged_too(
    installation: Installation, whole: Whole
) -> None:
    installation.start_engine()
    with open_services(installation.load_settings()) as services:
        point_id = alter_point(services, text_of(3))
        name = services.catalog.collection(LIBRARY).active_index
        document = services.catalog.document(services.catalog.consistency.chunk_owners(name, [point_id])[point_id])
        alter(services.blobs.path(document.content_hash))
    assert "not repaired, because its file is damaged, too" in installation.call("doctor", "--rebuild").output
    with open_services(installation.load_settings()) as services:
        assert services.index.present_ids(name, [point_id])


def turn_a_number(services: Services, text: str) -> None:
    """The sign of the greatest number of its vector, which keeps its length."""
    name = services.catalog.collection(LIBRARY).active_index
    points = services.index.retrieve(name, [*services.index.point_ids(name)])
    [point] = [each for each in points if each.payload["page_content"] == text]
    vector = list(point.vector)
    place = max(range(len(vector)), key=lambda each: abs(vector[each]))
    vector[place] = -vector[place]
    services.index.upsert(name, [replace(point, vector=vector)])


def test_an_altered_vector_that_keeps_its_length_is_found_by_embedding_again(
    installation: Installation, whole: Whole
) -> None:
    installation.start_engine()
    with open_services(installation.load_settings()) as services:
        turn_a_number(services, text_of(3))
    told = json.loads(installation.call("doctor", "--json", "--vectors", "all", code=1).stdout)["parts"]["vectors"]
    assert told["detail"] == f"vectors that do not fit their texts: {LIBRARY}: 1 of {whole.documents}"
    assert told["advice"] == "Run: gircse doctor --rebuild --vectors all"
    installation.call("doctor", "--rebuild", "--vectors", "all")
    told = json.loads(installation.call("doctor", "--json", "--vectors", "all", code=0).stdout)["parts"]["vectors"]
    assert told["is_well"]
    require_whole(installation, whole.documents)
    assert "takes a number from 1 on" in installation.call("doctor", "--vectors", "none", code=2).output


def test_texts_of_an_earlier_release_get_their_digest_when_asked_for(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    paths = sorted((installation.home / "files").glob("*.txt"))
    before = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.write_bytes(before[path].partition(b"\n")[2])
    require_whole(installation, whole.documents)
    installation.call("doctor", "--rebuild")
    assert all(path.read_bytes() != before[path] for path in paths)
    installation.call("doctor", "--rebuild", "--files")
    assert {path: path.read_bytes() for path in paths} == before
    require_whole(installation, whole.documents)


@pytest.mark.parametrize("lost", [1, 3])
def test_what_could_not_be_made_again_is_left_and_told(installation: Installation, whole: Whole, lost: int) -> None:
    """In place, and where so much is lost that a new index would be made: it would be without that document."""
    installation.start_engine()
    with open_services(installation.load_settings()) as services:
        name = services.catalog.collection(LIBRARY).active_index
        points = sorted(services.index.point_ids(name))
        document = services.catalog.document(services.catalog.consistency.chunk_owners(name, points[:1])[points[0]])
        services.blobs.path(document.content_hash).unlink()
        services.index.delete_points(name, points[1 : 1 + lost])
    installation.call("doctor", "--rebuild")
    with open_services(installation.load_settings()) as services:
        assert services.catalog.collection(LIBRARY).active_index == name
        assert sorted(services.index.point_ids(name)) == points
        services.index.delete_points(name, points[:1])
    assert "whose original file is lost" in installation.call("doctor", "--rebuild").output
    with open_services(installation.load_settings()) as services:
        assert services.catalog.document(document.id).state is document.state
        assert services.catalog.indexes.chunk_count(name) == len(points)


def test_a_text_without_a_digest_stays_where_its_original_is_lost(installation: Installation, whole: Whole) -> None:
    installation.start_engine()
    with open_services(installation.load_settings()) as services:
        [document] = services.catalog.documents(LIBRARY, limit=1)
        services.blobs.path(document.content_hash).unlink()
    for path in (installation.home / "files").glob("*.txt"):
        path.write_bytes(path.read_bytes().partition(b"\n")[2])
    assert "not repaired" in installation.call("doctor", "--rebuild", "--files").output
    with open_services(installation.load_settings()) as services:
        assert services.catalog.document(document.id).state is document.state
