"""LangChain over our collections: its Qdrant store finds what `gircse search` finds, and the class fits any project."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from gircse_program import Gircse
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from qdrant_servers import SERVER, QdrantServer, open_index

from app.edge import EdgeProcess
from app.errors import FingerprintMismatchError, UnknownCollectionError
from app.settings import load_settings
from app.vectors import QdrantVectorIndex
from app.wiring.langchain import open_vector_store
from embedder import GircseEmbeddings

pytestmark = pytest.mark.timeout(900)  # the first test waits for the sample library

SAMPLE = "sample"
LIMIT = 10
OTHER_MODEL = Path(__file__).parents[1] / "golden" / "reference" / "tiny-qwen2"
INSTRUCTION = "Identify the topic of the text."
QUERIES = [
    "a river that floods the plain every summer",
    "the bank closed my account without a word",
    "What did the court decide about schools?",
]

Hits = list[tuple[str, float]]


@pytest.fixture(scope="module")
def embeddings() -> GircseEmbeddings:
    return GircseEmbeddings()


@dataclass(frozen=True)
class Installation:
    """The sample library, searchable, and a client of the engine that has it."""

    gircse: Gircse
    client: QdrantClient


@pytest.fixture(scope="module", params=[pytest.param("edge", marks=pytest.mark.xdist_group(SAMPLE)), SERVER])
def installation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    if request.param == "edge":
        gircse: Gircse = request.getfixturevalue("sample_gircse")
        request.getfixturevalue("sample_server")
        with EdgeProcess(gircse.home / "edge") as edge:  # that the running server has started
            index = QdrantVectorIndex.over_edge(edge)
            yield Installation(gircse, index.client)
            index.close()
        return
    server: QdrantServer = request.getfixturevalue("qdrant_server")
    with server.with_own_names() as url:
        settings = {"GIRCSE_QDRANT_URL": url, **({"GIRCSE_QDRANT_API_KEY": server.api_key} if server.api_key else {})}
        gircse = Gircse(home=tmp_path_factory.mktemp("sample-on-server"), settings=settings)
        with gircse.serving("--sample") as running:
            running.wait_until_idle(SAMPLE)
            index = open_index(url, server.api_key)
            yield Installation(gircse, index.client)
            index.close()


@pytest.fixture
def store_hits(installation: Installation, embeddings: GircseEmbeddings) -> Callable[[str, str | None], Hits]:
    def ask(query: str, instruction: str | None) -> Hits:
        store = QdrantVectorStore(
            client=installation.client,
            collection_name="sample",  # the public name, as every client of Qdrant would use it
            embedding=embeddings if instruction is None else embeddings.with_instructions(query=instruction),
        )
        found = store.similarity_search_with_score(query, k=LIMIT, search_params=models.SearchParams(exact=True))
        return [(document.metadata["_id"], score) for document, score in found]

    return ask


@pytest.fixture
def command_hits(installation: Installation) -> Callable[[str, str | None], Hits]:
    options = ("--mode", "dense", "--collection", "sample", "--limit", str(LIMIT), "--json")

    def ask(query: str, instruction: str | None) -> Hits:
        chosen = () if instruction is None else ("--instruction", instruction)
        found = json.loads(installation.gircse.call("search", query, *options, *chosen).stdout)
        return [(hit["chunk"]["id"], hit["score"]) for hit in found["hits"]]

    return ask


@pytest.mark.parametrize("instruction", [None, INSTRUCTION], ids=["no-instruction", "instruction"])
@pytest.mark.parametrize("query", QUERIES)
def test_store_and_command_find_the_same_points_in_the_same_order(
    query: str,
    instruction: str | None,
    store_hits: Callable[[str, str | None], Hits],
    command_hits: Callable[[str, str | None], Hits],
) -> None:
    by_store, by_command = store_hits(query, instruction), command_hits(query, instruction)
    assert len(by_store) == LIMIT
    assert [point for point, _ in by_store] == [point for point, _ in by_command]
    assert [score for _, score in by_store] == pytest.approx([score for _, score in by_command], abs=1e-5)


def test_store_follows_the_instruction(store_hits: Callable[[str, str | None], Hits]) -> None:
    assert store_hits(QUERIES[0], None) != store_hits(QUERIES[0], INSTRUCTION)


def test_store_reads_the_text_and_where_it_stands(installation: Installation, embeddings: GircseEmbeddings) -> None:
    store = QdrantVectorStore(client=installation.client, collection_name="sample", embedding=embeddings)
    (document,) = store.similarity_search(QUERIES[0], k=1)
    assert document.page_content.strip()
    assert document.metadata["uri"].startswith("sample://")
    assert document.metadata["end"] - document.metadata["start"] == len(document.page_content)


def test_store_opened_for_a_collection_has_the_embeddings_that_filled_it(
    installation: Installation, command_hits: Callable[[str, str | None], Hits]
) -> None:
    home, given = installation.gircse.home, installation.gircse.settings
    own = {name.removeprefix("GIRCSE_").lower(): value for name, value in given.items()}
    settings = load_settings(home=home, **own)
    with open_vector_store("sample", query_instruction=INSTRUCTION, settings=settings) as store:
        found = store.similarity_search_with_score(QUERIES[0], k=LIMIT, search_params=models.SearchParams(exact=True))
        assert store.as_retriever(search_kwargs={"k": 1}).invoke(QUERIES[0])[0].page_content
    expected = command_hits(QUERIES[0], INSTRUCTION)
    assert [document.metadata["_id"] for document, _ in found] == [point for point, _ in expected]
    with (
        pytest.raises(FingerprintMismatchError, match="gircse reindex sample"),
        open_vector_store("sample", settings=load_settings(home=home, model=str(OTHER_MODEL), **own)),
    ):
        pass
    with pytest.raises(UnknownCollectionError), open_vector_store("nope", settings=settings):
        pass


OTHER_PROGRAM = """
import app, sys
from embedder import GircseEmbeddings
print(app.__file__)
print(len(GircseEmbeddings().embed_query("a query")))
print(*(name for name in sys.modules if name.startswith("app.")))
"""


def test_embeddings_work_in_a_project_with_an_app_package_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    own = tmp_path / "app" / "__init__.py"
    own.write_text("NAME = 'a project of someone else'\n")
    (tmp_path / "program.py").write_text(OTHER_PROGRAM)
    result = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == [str(own), "384", "", ""]
