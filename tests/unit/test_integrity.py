"""What counts as damage of an index and what does not, and how it is told."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from patience import wait_until

from app.documents.verified import Verified
from app.errors import DamagedIndexError, EngineFaultError, VectorIndexUnavailableError
from app.maintenance import index_probe
from app.maintenance.index_probe import probe_index
from app.settings import Settings
from app.testing import InMemoryVectorIndex, ToyEmbedder, text_source
from app.types.documents import JobState
from app.types.search import SearchRequest


class FaultyIndex(InMemoryVectorIndex):
    """Fails so many times."""

    faults: int = 0
    is_away = False

    def count(self, index: str, *, document_id: str | None = None) -> int:
        self._fail()
        return super().count(index, document_id=document_id)

    def search_legs(self, *args: Any, **options: Any) -> Any:
        self._fail()
        return super().search_legs(*args, **options)

    def _fail(self) -> None:
        if self.is_away:
            raise VectorIndexUnavailableError("away")
        if self.faults:
            self.faults -= 1
            raise EngineFaultError("The vector index fails: broken. If it goes on, ask the doctor.")


@pytest.fixture
def application(toy_services_factory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(index_probe, "_PAUSE_S", 0)
    application = toy_services_factory(index=FaultyIndex())
    for text in ("Cats sleep.", "Dogs bark.", "Ships sail."):
        application.add(text)
    return application


def probe(application: Any, **options: Any) -> Any:
    services = application.services
    return probe_index(services.catalog, services.index, services.catalog.collection("library"), **options)


def search(application: Any) -> Any:
    return application.services.search.search(SearchRequest(query="cats", collection="library"))


def test_a_fault_of_a_moment_is_no_damage_and_one_that_stays_is(application: Any) -> None:
    application.index.faults = 2
    assert probe(application) is None
    application.index.faults = 3
    assert probe(application).reason == "The vector index fails: broken"
    application.index.is_away = True
    with pytest.raises(VectorIndexUnavailableError):
        probe(application)


def test_a_search_is_refused_as_long_as_the_index_is_damaged(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(application).hits
    application.index.faults = 1
    with pytest.raises(EngineFaultError, match="broken"):
        search(application)  # a fault of a moment
    application.index.faults = 20
    with pytest.raises(DamagedIndexError, match=r"'library' is damaged.*gircse doctor --rebuild"):
        search(application)
    application.index.faults = 0
    with pytest.raises(DamagedIndexError):  # the last look was a moment ago
        search(application)
    monkeypatch.setattr("app.maintenance.integrity._AGAIN_S", -1)
    assert search(application).hits


def test_a_model_that_computes_other_vectors_than_it_did_is_reported(
    application: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with another tokenizer beside the same weights: the fingerprint stays the same."""
    integrity = application.services.integrity
    integrity.check_indexes()
    integrity.check_model()
    assert search(application).hits
    with monkeypatch.context() as altered:
        compute = ToyEmbedder._vector
        altered.setattr(ToyEmbedder, "_vector", lambda embedder, weights: compute(embedder, weights)[::-1])
        integrity.check_model()  # compared a moment ago
        assert search(application).hits
        altered.setattr("app.maintenance.integrity._MODEL_EVERY_S", 0)
        integrity._models.clear()  # as in a new process
        integrity.check_model()
        with pytest.raises(DamagedIndexError, match="computes other vectors than are stored"):
            search(application)
        assert "computes other vectors" in integrity.damage()["library"]
        assert not integrity.is_sound()
    integrity.check_model()
    assert search(application).hits
    assert integrity.damage() == {}


def test_a_model_that_fails_does_not_end_the_checks(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(ToyEmbedder, "embed_documents", fail)
    application.services.integrity.check_model()
    assert application.services.integrity.damage() == {}


def test_an_engine_that_is_away_is_no_damage(application: Any) -> None:
    application.index.is_away = True
    with pytest.raises(VectorIndexUnavailableError) as caught:
        search(application)
    assert not isinstance(caught.value, DamagedIndexError)
    application.services.integrity.check_indexes()
    assert application.services.integrity.damage() == {}


def test_documents_that_are_being_ingested_may_lack_points(application: Any) -> None:
    services = application.services
    document, _ = services.library.add_document("library", text_source("text://0", "Cats sleep a lot."))
    assert services.catalog.job_counts()[JobState.QUEUED] == 1
    for point_id in services.catalog.chunks(document.id):
        services.index.delete_points("library", [point_id.id])
    assert probe(application) is None
    application.work_off()
    assert probe(application) is None
    other = services.catalog.chunks(services.catalog.documents()[1].id)[0]
    services.index.delete_points("library", [other.id])
    assert probe(application).reason == "1 of its 3 chunks lack their points"


def test_what_was_damaged_is_looked_at_again_whatever_the_sample_is(
    toy_services_factory: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    application = toy_services_factory("many")
    for number in range(12):
        application.add(f"Text number {number}.")
    monkeypatch.setattr(index_probe, "_PAGE", 1)
    [*ids] = application.index.point_ids("library")
    [broken] = application.index.retrieve("library", [ids[7]])
    application.index._points["library--1"][ids[7]] = dataclasses.replace(broken, payload={})
    damage = probe(application, sample=None)
    assert damage.ids == (ids[7],)
    assert all(probe(application, sample=1, former=damage) for _ in range(5))
    application.index.upsert("library", [broken])
    assert probe(application, sample=1, former=damage) is None


def readiness(application: Any, settings: Settings, path: str = "/readyz") -> Any:
    services = application.services
    watched = dataclasses.replace(services, settings=settings, checks={"integrity": services.integrity.is_sound})
    return TestClient(api_of(watched)).get(path)


def test_readiness_waits_for_the_first_look_and_names_what_is_damaged(application: Any) -> None:
    settings = application.services.settings
    assert readiness(application, settings).status_code == 503
    application.services.integrity.check_indexes()
    assert readiness(application, settings).json() == {
        "status": "ready", "checks": {"integrity": True}, "damaged": {},
    }  # fmt: skip
    application.index.drop("library--1")
    application.services.integrity.check_indexes()
    answer = readiness(application, settings)
    assert answer.status_code == 503
    assert answer.json()["damaged"] == {"library": "its index: missing from the vector index"}
    answer = readiness(application, settings, "/readyz?exclude=integrity")
    assert (answer.status_code, answer.json()["checks"]) == (200, {"integrity": False})
    closed = settings.model_copy(update={"access_control": True})
    told = readiness(application, closed).text
    assert "library" not in told
    assert "collections with damaged or missing data: 1" in told


def test_a_file_that_is_damaged_is_told_until_it_is_mended(application: Any) -> None:
    services = application.services
    services.integrity.check_indexes()
    services.integrity.check_files()
    assert services.integrity.is_sound()
    document = services.catalog.documents()[0]
    path = services.blobs.path(document.content_hash)
    data = path.read_bytes()
    path.write_bytes(b"x" * len(data))
    services.integrity.check_files()
    assert not services.integrity.is_sound()
    assert services.integrity.damage() == {"library": "stored files missing or altered: 1"}
    path.write_bytes(data)
    assert services.integrity.is_sound()


@pytest.mark.parametrize(
    "put", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)], ids=["folder", "pipe", "loop"]
)
def test_what_is_no_file_any_more_is_damage(application: Any, put: Callable[[Path], None]) -> None:
    services = application.services
    services.integrity.check_indexes()
    path = services.blobs.path(services.catalog.documents()[0].content_hash)
    path.unlink()
    put(path)
    services.integrity.check_files()
    assert services.integrity.damage() == {"library": "stored files missing or altered: 1"}


def test_what_the_disk_cannot_read_is_damage_and_ends_no_looks(
    application: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = application.services

    def fail(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Verified, "holds", fail)
    for document in services.catalog.documents():
        os.utime(services.blobs.path(document.content_hash), (0, 0))
    with services.integrity.watching():
        wait_until(lambda: bool(services.integrity.damage()))
    assert services.integrity.damage() == {"library": "stored files missing or altered: 3"}
