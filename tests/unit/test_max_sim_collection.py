"""A model whose documents have a vector for every step, served: by the command line, REST, and LangChain."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from api_application import api_of
from command_line import Run, forget_settings, run_command
from starlette.testclient import TestClient
from tiny_models import contract, save_tiny_model

from app.edge import EdgeProcess
from app.settings import load_settings
from app.types.chunk_text import with_context
from app.wiring.langchain import open_vector_store
from app.wiring.services import open_services
from embedder import Encoder, load_encoder
from embedder.evaluation.similarity import scores_of
from embedder.model.contract import CONTRACT_FILE, Contract, hash_files

pytestmark = pytest.mark.xdist_group("max-sim-collection")  # it is filled once

Search = Callable[..., list[dict[str, Any]]]

QUERY, STEPS = "who hunts at night", 3
TEXTS = {
    "owl": "Owls hunt at night. They fly without a sound.",
    "eel": "Eels live in rivers and breed in the sea.",
    "bat": "Bats are mammals with wings, and they find their way by sound.",
    "ant": "Ants carry leaves that weigh more than they do.",
    "fox": "The fox hunts alone, mostly after sunset.",
}


def publish(folder: Path, **changes: object) -> Contract:
    found = contract(
        **{
            "base_files": hash_files(folder),
            "default_document_steps": 4,
            "default_query_steps": STEPS,
            "max_length": 128,
            "name": "steps",
            **changes,
        }
    )
    (folder / CONTRACT_FILE).write_text(found.to_json(), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_tiny_model(tmp_path_factory.mktemp("steps-model"), "qwen3")
    publish(folder, similarity="max_sim")
    return folder


def write_texts(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def set_environment(home: Path, model: Path, patch: pytest.MonkeyPatch) -> None:
    forget_settings(patch)
    patch.setenv("GIRCSE_HOME", str(home))
    patch.setenv("GIRCSE_MODEL", str(model))
    patch.setenv("GIRCSE_DTYPE", "float32")


@pytest.fixture(scope="module")
def filled_once(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home whose collection `library` holds the texts, and with their folder."""
    folder = tmp_path_factory.mktemp("filled")
    write_texts(folder / "animals")
    with pytest.MonkeyPatch.context() as patch:
        set_environment(folder / "home", tiny_model, patch)
        with EdgeProcess(folder / "home" / "edge"):
            run_command("ingest", str(folder / "animals"))
    return folder


@pytest.fixture
def home(filled_once: Path, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, to be changed."""
    shutil.copytree(filled_once / "home", tmp_path / "home")
    set_environment(tmp_path / "home", tiny_model, monkeypatch)
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> Run:
    return run_command


@pytest.fixture
def engine(home: Path) -> Iterator[None]:
    with EdgeProcess(home / "edge"):
        yield


@pytest.fixture
def filled(engine: None, filled_once: Path) -> Path:
    """The folder that was read."""
    write_texts(filled_once / "animals")  # as it was
    return filled_once / "animals"


@pytest.fixture
def search(run: Run) -> Callable[..., list[dict[str, Any]]]:
    def ask(*options: str, query: str = QUERY) -> list[dict[str, Any]]:
        asked = ("search", query, "--mode", "dense", "--steps", str(STEPS), "--no-prefer-prose", "--json", *options)
        return json.loads(run(*asked).stdout)["hits"]

    return ask


def best_steps(encoder: Encoder, hits: list[dict[str, Any]], *, steps: int = 4, instruction: str = "") -> list[float]:
    """Max-sim of the encoder's own vectors, written in numpy."""
    texts = [with_context(hit["chunk"]["context"], hit["chunk"]["text"]) for hit in hits]
    documents = encoder.encode_prefixes(texts, steps=steps)  # (n, K, D)
    query = encoder.encode_queries([QUERY], instruction=instruction, steps=STEPS)[0]
    found = np.einsum("nkd,d->nk", documents, query).max(axis=1)
    np.testing.assert_allclose(scores_of(np.tile(query, (1, steps, 1)), documents)[0], found, atol=1e-6)
    return found.tolist()


def score_of(hits: list[dict[str, Any]]) -> list[float]:
    return [hit["score"] for hit in hits]


@pytest.mark.usefixtures("filled")
def test_scores_are_those_of_the_best_steps(search: Search, run: Run, tiny_model: Path) -> None:
    encoder = load_encoder(str(tiny_model))
    hits = search()
    assert len(hits) == len(TEXTS)
    expected = best_steps(encoder, hits)
    assert score_of(hits) == pytest.approx(expected, abs=1e-5)
    assert score_of(hits) == sorted(score_of(hits), reverse=True)
    texts = [with_context(hit["chunk"]["context"], hit["chunk"]["text"]) for hit in hits]
    last = encoder.encode_documents(texts, steps=4) @ encoder.encode_queries([QUERY], steps=STEPS)[0]
    assert max(np.abs(last - score_of(hits))) > 1e-3  # one vector would score otherwise
    looked = search("--instruction", "the animal")
    assert score_of(looked) == pytest.approx(best_steps(encoder, looked, instruction="the animal"), abs=1e-5)
    assert json.loads(run("collections", "show", "library").stdout)["vectors_per_chunk"] == 4


@pytest.mark.usefixtures("filled")
def test_what_takes_one_vector_of_a_chunk_works_on_the_last(search: Search, run: Run) -> None:
    [first, *others] = search()
    like = search("--like", first["chunk"]["id"], "--unlike", others[-1]["chunk"]["id"])
    assert like[0]["chunk"]["id"] == first["chunk"]["id"]
    assert {hit["chunk"]["id"] for hit in search("--diversity", "0.9")} == {
        hit["chunk"]["id"] for hit in [first, *others]
    }
    assert len(search("--rerank", "5", "--instruction", "the animal")) == len(TEXTS)
    assert len(search("--values", "birds; fish; mammals", "--instruction", "Which animal?")) == len(TEXTS)
    run("lenses", "save", "kinds", "-i", "Which animal?", "--values", "birds; fish; mammals")
    run("lenses", "index", "build", "kinds", "-c", "library")
    assert search("--lens", "kinds")


@pytest.mark.usefixtures("filled")
def test_documents_change_and_go(search: Search, run: Run, filled: Path, tiny_model: Path) -> None:
    (filled / "eel.txt").write_text("Now it is about hunting eels at night.", encoding="utf-8")
    (filled / "ant.txt").unlink()
    run("ingest", str(filled), "--prune", "--yes")
    hits = search()
    assert len(hits) == len(TEXTS) - 1
    assert score_of(hits) == pytest.approx(best_steps(load_encoder(str(tiny_model)), hits), abs=1e-5)


@pytest.mark.usefixtures("filled")
def test_rest_and_langchain_find_the_same(search: Search, home: Path) -> None:
    expected = [(hit["chunk"]["id"], pytest.approx(hit["score"], abs=1e-5)) for hit in search()]
    settings = load_settings(home=home)
    with open_services(settings) as services, TestClient(api_of(services), base_url="http://127.0.0.1") as client:
        asked = {"query": QUERY, "collection": "library", "mode": "dense", "steps": STEPS, "prefer_prose": False}
        answer = client.post("/api/v1/search", json=asked)
        assert answer.status_code == 200, answer.text
        assert [(hit["chunk"]["id"], hit["score"]) for hit in answer.json()["hits"]] == expected
    with open_vector_store("library", settings=settings) as store:
        found = store.similarity_search_with_score(QUERY, k=len(TEXTS))
    assert [(document.metadata["_id"], score) for document, score in found] == expected


@pytest.mark.usefixtures("filled_once")
def test_a_vector_store_without_with_ends_its_engine_after_its_last_use(home: Path) -> None:
    def engines() -> list[psutil.Process]:
        return [each for each in psutil.Process().children() if "app.edge.server" in each.cmdline()]

    retriever = open_vector_store("library", settings=load_settings(home=home)).as_retriever(search_kwargs={"k": 1})
    assert len(retriever.invoke(QUERY)) == 1
    assert len(engines()) == 1
    del retriever
    gc.collect()
    assert engines() == []
    closed = open_vector_store("library", settings=load_settings(home=home))
    closed.close()
    closed.close()
    assert engines() == []


@pytest.mark.usefixtures("filled")
def test_a_collection_moves_with_all_its_vectors(search: Search, run: Run, tmp_path: Path) -> None:
    before = score_of(search())
    run("export", "library", str(tmp_path / "library.tar.gz"))
    run("import", str(tmp_path / "library.tar.gz"), "--as", "copy")
    assert score_of(search("-c", "copy")) == pytest.approx(before, abs=1e-6)


@pytest.mark.usefixtures("filled")
def test_a_backup_holds_all_its_vectors(
    search: Search, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = score_of(search())
    run("backup", str(tmp_path / "all.tar.gz"), "--indexes")
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path / "another-home"))
    run("restore", str(tmp_path / "all.tar.gz"), "--no-rebuild")
    assert score_of(search()) == pytest.approx(before, abs=1e-6)


@pytest.mark.usefixtures("filled")
def test_a_lost_index_is_made_again_for_as_many_vectors(search: Search, run: Run, home: Path, filled: Path) -> None:
    before = score_of(search())
    with open_services(load_settings(home=home)) as services:
        services.index.drop(services.catalog.collection("library").active_index)
    run("check", "--fix")
    run("ingest", str(filled))
    assert score_of(search()) == pytest.approx(before, abs=1e-6)


@pytest.mark.usefixtures("filled")
def test_it_is_reindexed_with_other_steps_and_checked(search: Search, run: Run, tiny_model: Path) -> None:
    run("check")
    run("reindex", "library", "--document-steps", "2")
    hits, encoder = search(), load_encoder(str(tiny_model))
    assert score_of(hits) == pytest.approx(best_steps(encoder, hits, steps=2), abs=1e-5)
    run("reindex", "library", "--document-steps", "1")  # one step is one vector
    hits = search()
    assert score_of(hits) == pytest.approx(best_steps(encoder, hits, steps=1), abs=1e-5)
    run("rollback", "library")
    assert score_of(search()) == pytest.approx(best_steps(encoder, search(), steps=2), abs=1e-5)
    run("check")


@pytest.mark.usefixtures("filled")
def test_the_same_weights_by_one_vector_are_another_model(
    run: Run, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "one-vector"
    other.mkdir()
    for file in tiny_model.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    plain = publish(other)
    assert plain.fingerprint != replace(plain, similarity="max_sim").fingerprint
    monkeypatch.setenv("GIRCSE_MODEL", str(other))
    told = run("search", QUERY, code=1).stderr
    assert plain.fingerprint in told
    assert "gircse reindex library" in told.replace("\n", " ")
