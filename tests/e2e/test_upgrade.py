"""Data of the first release, brought up to date by this one: migrated, searched, served, filled further, and brought
over to the model that is the default now.

The fixture is a GIRCSE_HOME as `gircse ingest` left it when the schema was 0001, and what its search found then.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gircse_program import Gircse

FIXTURES = Path(__file__).parents[1] / "fixtures"
QUERY = "Which animals can fly?"
THEN: list[dict[str, Any]] = json.loads((FIXTURES / "home-of-schema-0001.hits.json").read_text("utf-8"))


@pytest.fixture
def old(gircse_factory: Callable[..., Gircse]) -> Gircse:
    gircse = gircse_factory(settings={"GIRCSE_MODEL": "gircse-mini"})  # the default of then
    with tarfile.open(FIXTURES / "home-of-schema-0001.tar.xz") as archive:
        archive.extractall(gircse.home)  # our own; `filter` is not in every Python 3.11
    assert revision(gircse.home / "catalog.db") == "0001"
    return gircse


def revision(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def facts(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "title": hit["document"]["title"],
            "uri": hit["document"]["uri"],
            "document": hit["document"]["id"],
            "chunk": hit["chunk"]["id"],
            "score": pytest.approx(hit["score"], abs=2e-3),  # another engine computes by now
        }
        for hit in hits
    ]


def test_a_home_of_the_first_schema_is_migrated_searched_and_served(old: Gircse, tmp_path: Path) -> None:
    found = json.loads(old.call("search", QUERY, "-c", "animals", "--steps", "2", "--mode", "dense", "--json").stdout)
    assert facts(found["hits"]) == THEN
    assert revision(old.home / "catalog.db") > "0001"
    [backup] = old.home.glob("catalog.db.0001.*.backup")
    assert revision(backup) == "0001"

    told = json.loads(old.call("doctor", "--json").stdout)
    assert told["is_well"], told
    assert "agree" in old.call("check").stdout

    with old.serving("--no-open", log=tmp_path / "up.log") as server:
        served = server.search(QUERY, collection="animals", steps=2, mode="dense")
        assert facts(served["hits"]) == THEN
        documents = server.ask("/api/v1/documents?collection=animals").body
        assert [document["state"] for document in documents] == ["ready"] * 3
        text = {"text": "Herons stand in shallow water and fish.", "title": "heron", "collection": "animals"}
        assert server.ask("/api/v1/documents", text).status == 202
        server.wait_until_idle("animals")
        wading = server.search("Herons fish in shallow water", collection="animals", steps=2)
        assert wading["hits"][0]["document"]["title"] == "heron"


def test_what_the_former_default_filled_is_refused_by_name_until_it_is_brought_over(old: Gircse) -> None:
    today = replace(old, settings={})
    refused = today.call("search", QUERY, "-c", "animals", code=1).output
    assert "gircse-mini) than the one in use, gircse-small" in " ".join(refused.split())
    assert "gircse reindex animals" in refused
    today.call("reindex", "animals")
    found = json.loads(today.call("search", QUERY, "-c", "animals", "--json").stdout)
    assert {hit["document"]["title"] for hit in found["hits"]} == {hit["title"] for hit in THEN}
