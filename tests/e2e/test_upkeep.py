"""A collection's life after ingestion, by the command line with the real model: moved, lost, made again, reindexed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gircse_program import Gircse

from app.edge import EdgeProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

QUESTION = ("search", "Which animals can fly?", "-c", "animals", "--steps", "2", "--json")


@pytest.fixture
def filled(gircse_factory: Callable[..., Gircse], tmp_path: Path) -> Gircse:
    folder = tmp_path / "animals"
    folder.mkdir()
    for name, text in {
        "owl": "Owls hunt at night. They fly without a sound.",
        "eel": "Eels live in rivers and breed in the sea.",
        "bat": "Bats are mammals with wings, and they find their way by sound.",
    }.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    gircse = gircse_factory()
    gircse.call("ingest", str(folder), "-c", "animals")
    return gircse


def hits(gircse: Gircse) -> list[dict[str, Any]]:
    return json.loads(gircse.call(*QUESTION).stdout)["hits"]


def test_a_collection_moves_to_a_server_with_the_very_same_hits(
    filled: Gircse, gircse_factory: Callable[..., Gircse], tmp_path: Path
) -> None:
    archive = str(tmp_path / "animals.tar.zst")
    before = hits(filled)
    assert "3 documents with 3 chunks" in filled.call("export", "animals", archive).stdout
    assert "--force" in filled.call("export", "animals", archive, code=1).output
    with EdgeProcess(tmp_path / "server") as server:  # any server that speaks Qdrant's REST API
        connection = server.start()
        settings = {"GIRCSE_QDRANT_URL": connection.url, "GIRCSE_QDRANT_API_KEY": connection.token}
        elsewhere = gircse_factory("elsewhere", settings=settings)
        assert "3 documents with 3 chunks" in elsewhere.call("import", archive).stdout
        assert hits(elsewhere) == before
        assert not (elsewhere.home / "edge").exists()
        assert "agree" in elsewhere.call("check").stdout


def test_lost_vectors_are_found_and_made_again(filled: Gircse) -> None:
    before = hits(filled)
    shutil.rmtree(filled.home / "edge")
    found = filled.call("check", code=1)
    assert "chunks without their points" in found.output
    assert "gircse doctor --rebuild" in " ".join(filled.call("doctor", code=1).stdout.split())
    filled.call("doctor", "--rebuild")
    assert hits(filled) == before
    assert "agree" in filled.call("check").stdout


def test_a_collection_is_indexed_anew_and_taken_back(filled: Gircse) -> None:
    before = hits(filled)
    made = ("--document-instruction", "Identify the animal", "--document-steps", "1")
    said = filled.call("reindex", "animals", *made).stdout
    assert "animals--2" in said
    assert "3 documents with 3 chunks" in said
    assert [hit["score"] for hit in hits(filled)] != [hit["score"] for hit in before]
    assert "already has these settings" in filled.call("reindex", "animals", code=1).output
    assert "animals--1" in filled.call("rollback", "animals").stdout
    assert hits(filled) == before
    assert "Dropped animals--2" in filled.call("collections", "prune", "animals").stdout
    assert "has no previous index" in filled.call("collections", "prune", "animals", code=1).output
    assert "agree" in filled.call("check").stdout


@pytest.mark.parametrize("former", [("--orphans",), ("--orphans", "--fix", "--foreign"), ("--rebuild",)])
def test_the_former_options_of_doctor_still_check(filled: Gircse, former: tuple[str, ...]) -> None:
    assert "agree" in filled.call("doctor", *former).stdout


@pytest.mark.parametrize(
    "options",
    [
        ("check", "--unmanaged"),
        ("check", "--rebuild", "--fix"),
        ("doctor", "--fix"),
        ("doctor", "--rebuild", "--orphans"),
    ],
)
def test_options_of_the_check_that_make_no_sense_together_are_refused(
    gircse_factory: Callable[..., Gircse], options: tuple[str, ...]
) -> None:
    assert "use --" in gircse_factory().call(*options, code=2).output
