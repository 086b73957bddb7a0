"""Benchmarks measure the embedded engine and a server side by side, with a collection of their own that they remove."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qdrant_servers import QdrantServer, open_index

from app.settings import load_settings
from research.benchmarks.qdrant_choice import QdrantChoice, add_qdrant_options, qdrant_choices
from research.benchmarks.search_scale import Bench, Corpus
from research.benchmarks.spread_vectors import unit_rows

pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")


@pytest.fixture
def parse() -> Callable[..., argparse.Namespace]:
    parser = argparse.ArgumentParser()
    add_qdrant_options(parser)
    return lambda *arguments: parser.parse_args(arguments)


def test_the_embedded_engine_is_measured_alone_unless_an_address_is_given(
    parse: Callable[..., argparse.Namespace], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIRCSE_QDRANT_API_KEY", "a key that nobody asks the embedded engine for")
    with qdrant_choices(parse()) as choices:
        assert choices == [QdrantChoice("embedded")]
        assert load_settings(home=tmp_path, **choices[0].settings).qdrant_api_key is None


def test_an_embedded_engine_behind_an_address_is_no_server(
    parse: Callable[..., argparse.Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    with qdrant_choices(parse("--qdrant", "stand-in")) as (embedded, server):
        assert (embedded.label, server.label) == ("embedded", "stand-in")
        monkeypatch.setenv("GIRCSE_QDRANT_API_KEY", server.api_key or "")
        with qdrant_choices(parse("--qdrant", str(server.url), "--no-embedded")) as choices:
            assert [each.name for each in choices] == ["stand-in"]
            assert choices[0].environment == {
                "GIRCSE_QDRANT_URL": server.url,
                "GIRCSE_QDRANT_API_KEY": server.api_key,
            }


def test_nodes_are_told_and_get_shards_and_replicas() -> None:
    cluster = QdrantChoice("server", "http://a,http://b,http://c", nodes=3)
    assert cluster.label == "server, 3 nodes"
    assert (cluster.sharding.shards, cluster.sharding.replicas) == (3, 2)
    assert (cluster.settings["qdrant_shards"], cluster.settings["qdrant_replicas"]) == (3, 2)


@pytest.mark.server(is_quick=True)
@pytest.mark.timeout(600)
def test_rows_of_a_server_stand_beside_those_of_the_embedded_engine(
    qdrant_server: QdrantServer, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    texts = [f"text {word} of some words" for word in ("owl", "eel", "bat")]
    corpus = Corpus(
        "tiny", unit_rows(random.standard_normal((200, 8))), texts, unit_rows(random.standard_normal((6, 8)))
    )
    with qdrant_server.with_own_names() as url:
        server = QdrantChoice("server", url, qdrant_server.api_key)
        tables = {}
        for engine in (QdrantChoice("embedded"), server):
            rows = list(Bench(corpus, tmp_path / engine.name, engine).run(["none"]))
            tables[engine.name] = {(row.search, row.filter): row for row in rows}
            assert {row.engine for row in rows} == {engine.label}
        index = open_index(url, qdrant_server.api_key)
        assert index.indexes() == []  # what was measured is removed
        index.close()
    assert tables["embedded"].keys() == tables["server"].keys()
    assert {search for search, _ in tables["server"]} == {
        "exact", "words", "hybrid", "exact, after optimize", "words, after optimize", "hybrid, after optimize",
    }  # fmt: skip
    assert {condition for _, condition in tables["server"]} > {"", "text, 1 chunk of 10", "number, 1 chunk of 100"}
    for row in tables["server"].values():
        assert (row.memory, row.disk_mb) == (None, None)
        assert row.recall in (None, 1.0)
    assert all(row.memory is not None and row.disk_mb for row in tables["embedded"].values())
