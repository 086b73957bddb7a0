"""Another index grows beside the live one: stopped and resumed, under changes, switched in one step, and back."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models
from qdrant_servers import Address, engine_address, new_index

from app.errors import ConflictError, DamagedIndexError, FingerprintMismatchError, InputError, UnknownCollectionError
from app.maintenance.consistency import ConsistencyCheck
from app.maintenance.reindex import Reindexer
from app.search.service import SearchService
from app.testing import InMemoryVectorIndex, ToyEmbedder, text_source
from app.types.documents import Collection, Document, IndexRole, JobState
from app.types.search import SearchMode, SearchRequest
from app.types.upkeep import ContractChange
from app.vectors import QdrantVectorIndex
from embedder.refinement import Refinement

__all__ = ["engine_address", "new_index"]  # fixtures: the tests run against a server, too

TEXTS = [
    f"The {animal} sleeps in the {place}.\n\nIt gets up at {hour} and looks around for something to eat."
    for animal, place, hour in zip(
        ("cat", "dog", "owl", "fox", "bee", "eel"),
        ("hut", "barn", "tree", "den", "hive", "sea"),
        range(6),
        strict=True,
    )
]
SHORTER = ContractChange(chunk_tokens=16, chunk_overlap=0)
INSTRUCTED = ContractChange(document_instruction="Identify the animal")


class HookedEmbedder(ToyEmbedder):
    """Calls `hook` with the number of document texts that it has embedded, before each further call.

    And `query_hook`, once, before a query.
    """

    hook: Callable[[int], None] | None = None
    query_hook: Callable[[], None] | None = None

    def embed_query(self, text: str, **options: Any) -> Refinement:
        if hook := self.query_hook:
            self.query_hook = None
            hook()
        return super().embed_query(text, **options)

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        if self.hook is not None:
            self.hook(len(self.embedded_texts))
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@pytest.fixture
def application(toy_services_factory: Callable[..., Any]) -> Any:
    """Six documents of one chunk each."""
    return filled(toy_services_factory(embedder=HookedEmbedder()))


def filled(application: Any, texts: Sequence[str] = TEXTS) -> Any:
    application.services.library.ensure_collection("library")
    for number, text in enumerate(texts):
        application.services.library.add_document("library", text_source(f"text://{number}", text))
    application.work_off()
    application.embedder.embedded_texts.clear()
    return application


def reindexer_of(application: Any, embedder: ToyEmbedder | None = None) -> Reindexer:
    services = application.services
    embedder = embedder or application.embedder

    @contextmanager
    def index_documents(documents: Sequence[Document], collection: Collection) -> Iterator[Any]:
        application.pipeline.embedder = embedder
        with application.pipeline.index_documents(documents, collection, heartbeat=lambda *_: None) as indexed:
            yield indexed

    return Reindexer(
        catalog=services.catalog,
        index=services.index,
        blobs=services.blobs,
        embedder=embedder,
        index_documents=index_documents,
        small_bytes=1_000,
        page=2,
    )


def reindex(application: Any, change: ContractChange = SHORTER, **options: Any) -> Any:
    reindexer = reindexer_of(application, **options)
    return reindexer.build(reindexer.begin("library", change))


def contents(application: Any) -> dict[str, tuple[object, list[float]]]:
    """By document and place, since ids of documents differ from application to application."""
    index = application.services.index
    name = application.services.catalog.collection("library").active_index
    found = {}
    for point in index.retrieve(name, list(index.point_ids(name))):
        metadata = dict(point.payload["metadata"])
        del metadata["document_id"]
        found[f"{metadata['uri']} {metadata['ordinal']}"] = (
            (point.payload["page_content"], metadata),
            [round(value, 6) for value in point.vector],
        )
    return found


def searched(application: Any) -> list[str]:
    """By a service that remembers no query, as that of another process."""
    services = application.services
    service = SearchService(services.catalog, services.index, services.embedder)
    result = service.search(SearchRequest("who sleeps in the tree", "library"), highlight=False)
    return [hit.chunk.text for hit in result.hits]


def differences(application: Any) -> list[object]:
    services = application.services
    return list(ConsistencyCheck(catalog=services.catalog, index=services.index, blobs=services.blobs).differences())


def test_a_search_whose_index_is_dropped_under_it_uses_the_new_one(application: Any) -> None:
    before = searched(application)

    def switch_and_prune() -> None:
        reindex(application, INSTRUCTED)
        reindexer_of(application).prune("library")

    application.embedder.query_hook = switch_and_prune  # after the catalog was asked, before the index is
    assert searched(application) == before
    assert application.services.catalog.collection("library").active_index == "library--2"


def test_a_search_whose_index_is_lost_says_so(application: Any) -> None:
    application.services.index.drop("library--1")
    with pytest.raises(DamagedIndexError, match=r"is missing from the vector index.*gircse doctor --rebuild"):
        searched(application)


def test_a_search_does_not_mix_models_when_its_index_is_replaced_under_it(application: Any) -> None:
    def switch_and_prune() -> None:
        newer = ToyEmbedder(fingerprint="toy-2")
        reindex(application, ContractChange(), embedder=newer)
        reindexer_of(application, newer).prune("library")

    application.embedder.query_hook = switch_and_prune
    with pytest.raises(FingerprintMismatchError, match=r"reindexed with another model, restart the server"):
        searched(application)


@pytest.fixture
def undisturbed(toy_services_factory: Callable[..., Any]) -> Any:
    """An application whose documents were ingested with the short chunks from the start."""
    application = toy_services_factory("undisturbed")
    application.services.library.create_collection("library", chunk_tokens=16, chunk_overlap=0)
    return filled(application)


def test_the_new_index_is_what_ingestion_would_have_made(application: Any, undisturbed: Any) -> None:
    report = reindex(application)
    assert (report.documents, report.chunks, report.unreadable) == (6, len(contents(undisturbed)), {})
    assert report.chunks > 6
    assert contents(application) == contents(undisturbed)
    assert application.index.aliases() == {"library": "library--2"}
    catalog = application.services.catalog
    assert catalog.counted_collection("library").chunk_count == report.chunks
    assert catalog.collection("library").chunk_tokens == 16
    assert differences(application) == []


def test_searches_are_answered_by_the_old_index_until_the_switch(application: Any) -> None:
    before = searched(application)
    seen: list[list[str]] = []
    application.embedder.hook = lambda _: seen.append(searched(application))
    reindex(application)
    assert len(seen) >= 3
    assert all(texts == before for texts in seen)
    assert searched(application) != before


def test_small_documents_are_embedded_together_and_a_long_one_alone(toy_services_factory: Callable[..., Any]) -> None:
    application = filled(toy_services_factory(embedder=HookedEmbedder()), [*TEXTS, "A whale sings. " * 100])
    counts: list[int] = []
    application.embedder.hook = counts.append
    reindex(application, INSTRUCTED)
    checked, *sizes = (
        after - before for before, after in pairwise([*counts, len(application.embedder.embedded_texts)])
    )
    assert checked == 1  # the contract
    assert max(sizes) == 3  # the chunks of the long one
    sizes.remove(3)
    assert sorted(sizes) in ([2, 2, 2], [1, 1, 2, 2])  # pages hold two, and one of them the long one
    assert differences(application) == []


def test_a_stop_in_the_middle_keeps_what_is_done(application: Any, undisturbed: Any) -> None:
    def stop(embedded: int) -> None:
        if embedded >= 5:
            raise KeyboardInterrupt

    application.embedder.hook = stop
    with pytest.raises(KeyboardInterrupt):
        reindex(application)
    assert application.services.catalog.collection("library").active_index == "library--1"
    application.embedder.hook = None
    reindex(application, ContractChange())  # without options it goes on with those of the first run
    assert contents(application) == contents(undisturbed)
    # Two more for the check of the contract; no text was embedded again.
    assert len([text for text in application.embedder.embedded_texts if text != "a"]) == len(contents(undisturbed))


KILLED = """
import os, sys, time
sys.path[:0] = sys.argv[4:]
from conftest import ToyServices
from contextlib import ExitStack
from pathlib import Path
from test_reindex import HookedEmbedder, filled, reindex
from app.types.upkeep import ContractChange
from app.vectors import QdrantVectorIndex

home, url, token = sys.argv[1:4]
embedder, index = HookedEmbedder(), QdrantVectorIndex.at(url, api_key=token or None)
application = ToyServices(Path(home), ExitStack(), embedder=embedder, index=index)
filled(application)
def hook(embedded):
    print(embedded, flush=True)
    time.sleep(0.05)
embedder.hook = hook
reindex(application)
"""


def test_a_killed_process_is_resumed_by_the_next_one(
    toy_services_factory: Callable[..., Any], undisturbed: Any, engine_address: Address, tmp_path: Path
) -> None:
    address = engine_address
    folders = [str(Path(__file__).parents[above]) for above in (2, 1, 0)]
    command = [sys.executable, "-c", KILLED, str(tmp_path / "home"), address.url, address.api_key, *folders]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 5:
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    index = address.open_index()
    application = toy_services_factory("home", index=index)
    assert application.services.catalog.collection("library").active_index == "library--1"
    assert searched(application)
    done = index.count("library--2")
    assert 0 < done < len(contents(undisturbed))
    reindex(application, ContractChange())
    assert contents(application) == contents(undisturbed)
    assert len(application.embedder.embedded_texts) == len(contents(undisturbed)) - done
    assert differences(application) == []
    index.close()


def test_documents_that_change_meanwhile_are_in_the_new_index_too(application: Any) -> None:
    library, catalog = application.services.library, application.services.catalog
    ids = {document.uri: document.id for document in catalog.documents()}

    def change(embedded: int) -> None:
        application.embedder.hook = None  # once
        library.add_document("library", text_source("text://new", b"A new text."))
        library.add_document("library", text_source("text://0", b"The cat has left."))
        library.add_document("library", text_source("text://5", b"The eel has left."))
        library.delete_document(ids["text://1"])
        library.delete_document(ids["text://4"])
        application.work_off()

    application.embedder.hook = change
    reindex(application)
    application.work_off()
    texts = " ".join(text for (text, _), _ in contents(application).values())
    assert all(part in texts for part in ("A new text.", "The cat has left.", "The eel has left.", "owl", "fox"))
    assert not any(part in texts for part in ("dog", "bee", "hut", "sea"))
    assert differences(application) == []


def test_a_job_that_runs_across_the_switch_starts_over(application: Any) -> None:
    library, catalog = application.services.library, application.services.catalog
    reindexer = reindexer_of(application)
    target = reindexer.begin("library", SHORTER)
    library.add_document("library", text_source("text://late", b"A late text."))
    job = catalog.claim("another worker", lease=timedelta(minutes=1))
    reindexer.build(target)
    assert catalog.job(job.id).state is JobState.QUEUED
    catalog.release(job)  # as its worker does when it learns that the lease is lost
    application.work_off()
    assert catalog.job(job.id).state is JobState.DONE
    assert differences(application) == []


def test_points_lost_before_the_switch_are_made_again(application: Any, undisturbed: Any) -> None:
    reindexer = reindexer_of(application)
    target = reindexer.begin("library", SHORTER)
    first = application.services.catalog.documents()[0]

    def lose(done: int, total: int) -> None:
        if done == total:
            application.index.delete_document("library--2", first.id)
            lost.append(1)

    lost: list[int] = []
    reindexer.build(target, on_progress=lambda done, total: lose(done, total) if not lost else None)
    assert lost
    assert contents(application) == contents(undisturbed)


def test_another_model_takes_over(application: Any) -> None:
    newer = ToyEmbedder(dimension=128, fingerprint="toy-2")
    reindex(application, ContractChange(), embedder=newer)
    made = application.services.catalog.collection("library")
    assert (made.fingerprint, made.dimension) == ("toy-2", 128)
    with pytest.raises(FingerprintMismatchError, match="gircse reindex library"):
        searched(application)


def test_a_document_that_cannot_be_read_is_named_and_does_not_hold_up_the_rest(application: Any) -> None:
    application.services.library.add_document("library", text_source("text://empty", b" "))
    application.work_off()
    report = reindex(application)
    assert list(report.unreadable) == ["text://empty"]
    assert differences(application) == []


class TestRollBack:
    def test_returns_to_the_former_answers_and_forth_again(self, application: Any) -> None:
        before = searched(application)
        reindex(application)
        after = searched(application)
        reindexer = reindexer_of(application)
        assert reindexer.roll_back("library").active_index == "library--1"
        assert searched(application) == before
        assert application.index.aliases() == {"library": "library--1"}
        assert application.services.catalog.counted_collection("library").chunk_count == 6
        assert reindexer.roll_back("library").active_index == "library--2"
        assert searched(application) == after
        assert differences(application) == []

    def test_takes_in_what_changed_since(self, application: Any) -> None:
        reindex(application)
        library, catalog = application.services.library, application.services.catalog
        gone = next(document for document in catalog.documents() if document.uri == "text://1")
        library.delete_document(gone.id)
        library.add_document("library", text_source("text://0", b"The cat has left."))
        library.add_document("library", text_source("text://new", b"A new text."))
        application.work_off()
        reindexer_of(application).roll_back("library")
        application.work_off()
        texts = sorted(text for (text, _), _ in contents(application).values())
        assert texts == sorted(["The cat has left.", "A new text.", *TEXTS[2:]])
        assert differences(application) == []

    def test_mends_a_previous_index_that_lost_points(self, application: Any) -> None:
        before = contents(application)
        reindex(application)
        application.index.delete_points("library--1", list(application.index.point_ids("library--1"))[:2])
        reindexer_of(application).roll_back("library")
        application.work_off()
        assert contents(application) == before

    def test_without_a_previous_index_is_refused(self, application: Any) -> None:
        with pytest.raises(ConflictError, match="no previous index"):
            reindexer_of(application).roll_back("library")
        with pytest.raises(UnknownCollectionError):
            reindexer_of(application).roll_back("libary")


def test_the_previous_index_is_dropped_by_the_next_switch_or_on_request(application: Any) -> None:
    reindex(application)
    reindex(application, INSTRUCTED)
    assert application.index.indexes() == ["library--2", "library--3"]
    assert reindexer_of(application).prune("library") == "library--2"
    assert reindexer_of(application).prune("library") is None
    assert application.index.indexes() == ["library--3"]
    assert differences(application) == []


def test_a_half_built_index_is_not_mixed_with_another_contract(application: Any) -> None:
    reindexer = reindexer_of(application)
    reindexer.begin("library", SHORTER)
    with pytest.raises(ConflictError, match=r"chunk_tokens 16, not 64.*--restart"):
        reindexer.begin("library", ContractChange(chunk_tokens=64))
    assert reindexer.begin("library", ContractChange(chunk_tokens=64), restart=True).active_index == "library--3"
    assert application.index.indexes() == ["library--1", "library--3"]
    assert application.services.catalog.indexes.standby("library", IndexRole.BUILDING).chunk_tokens == 64


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (ContractChange(), ConflictError),
        (ContractChange(chunk_tokens=200), ConflictError),
        (ContractChange(chunk_tokens=3), InputError),
        (ContractChange(document_steps=99), InputError),
    ],
)
def test_a_change_that_is_none_or_cannot_be_made_leaves_nothing(
    application: Any, change: ContractChange, error: type[Exception]
) -> None:
    with pytest.raises(error):
        reindexer_of(application).begin("library", change)
    assert application.index.indexes() == ["library--1"]


def test_an_index_without_words_is_made_anew_though_its_contract_stays(
    toy_services_factory: Callable[..., Any], new_index: Callable[..., Any]
) -> None:
    index = new_index()
    if isinstance(index, QdrantVectorIndex):
        size = ToyEmbedder().info.dimension
        params = models.VectorParams(size=size, distance=models.Distance.COSINE)
        index.client.create_collection("library--1", vectors_config=params)
    else:
        index = InMemoryVectorIndex(without_words={"library--1"})
    application = filled(toy_services_factory(embedder=HookedEmbedder(), index=index))
    by_words = SearchRequest(query="an owl", collection="library", mode=SearchMode.SPARSE)
    with pytest.raises(ConflictError, match="gircse reindex library"):
        application.services.search.search(by_words)
    report = reindex(application, ContractChange())
    assert (report.documents, report.chunks) == (6, 6)
    [hit] = application.services.search.search(by_words).hits
    assert "owl" in hit.chunk.text
    with pytest.raises(ConflictError, match="already has these settings"):
        reindex(application, ContractChange())
