"""What a node of a cluster does with a block of documents, how a cluster is shared out, and what is refused before."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from bulk_parts import ApplicationParts
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from patience import PATIENCE_S
from typer.testing import CliRunner

from app.cli import app
from app.commands.bulk import require_ray
from app.errors import ConflictError, NotFoundError, UnavailableError
from app.services import Services
from app.testing import ToyEmbedder, text_source
from app.types.documents import Chunk, Collection, Document, DocumentState, Job, JobKind, JobState
from ingest.ray_engine import node as node_module
from ingest.ray_engine.gathering import GatheredDocument
from ingest.ray_engine.node import Node
from ingest.ray_engine.results import FailedDocument, IndexedChunks, IndexedDocument, Result, Work

COLLECTION = "library"
RUN = "run"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class _Embedder(ToyEmbedder):
    """Calls `before` with each text. One that says `unusable` gets no vector."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[str], None] = lambda _: None

    def embed_documents(self, texts, *, instruction, steps):
        for text in texts:
            self.before(text)
        found = super().embed_documents(texts, instruction=instruction, steps=steps)
        return [[float("nan")] * len(v) if "unusable" in text else v for text, v in zip(texts, found, strict=True)]


@dataclass
class _Given:
    node: Node
    collection: Collection
    works: list[Work]
    services: Services

    def results(self, run: str = RUN) -> list[list[Result]]:
        return list(self.node.index(run, self.collection, self.works))

    def point_count(self, number: int) -> int:
        return self.services.index.count(self.collection.active_index, document_id=self.works[number].document.id)


@pytest.fixture
def given_texts(toy_services_factory) -> Callable[..., _Given]:
    def give(*texts: str, before: Callable[[str], None] = lambda _: None, batch_size: int = 64) -> _Given:
        embedder = _Embedder()
        services = toy_services_factory("bulk", embedder=embedder).services
        collection = services.library.ensure_collection(COLLECTION)
        works = []
        for number, text in enumerate(texts):
            document, job = services.library.add_document(COLLECTION, text_source(f"{number}.txt", text))
            works.append(Work(job.id, document))
        node = Node(ApplicationParts(services, batch_size=batch_size), slots=1)
        embedder.before = before
        embedder.embedded_texts.clear()
        return _Given(node, collection, works, services)

    return give


def test_a_block_comes_back_document_by_document_without_texts(given_texts) -> None:
    given = given_texts("One sentence.", "\n\n".join(f"Paragraph {n} of rain." for n in range(300)))
    given.node.renew(RUN, (), 60)
    (results,) = given.results()
    assert [type(each) for each in results] == [IndexedChunks, IndexedDocument] * 2
    assert [each.job_id for each in results] == [work.job_id for work in given.works for _ in range(2)]
    chunks = results[2].chunks
    assert [chunk.ordinal for chunk in chunks] == list(range(given.point_count(1)))
    assert {chunk.text for chunk in chunks} == {""}
    assert given.point_count(0) == 1


def test_a_long_document_comes_back_in_parts(given_texts, monkeypatch) -> None:
    monkeypatch.setattr(node_module, "_CHUNKS_AT_A_TIME", 3)
    given = given_texts("\n\n".join(f"Paragraph {n} of rain." for n in range(300)), "One sentence.")
    given.node.renew(RUN, (), 60)
    parts = given.results()
    sizes = [sum(len(each.chunks) for each in part if isinstance(each, IndexedChunks)) for part in parts]
    assert sizes[:-1] == [3] * (len(sizes) - 1)
    assert len(sizes) >= 3
    assert sum(sizes) == given.point_count(0) + 1
    assert [each.job_id for part in parts for each in part if isinstance(each, IndexedDocument)] == [
        work.job_id for work in given.works
    ]


def test_one_document_without_a_usable_vector_fails_alone(given_texts) -> None:
    given = given_texts("One sentence.", "An unusable one.", "A third.", "  ")
    given.node.renew(RUN, (), 60)
    results = [each for part in given.results() for each in part]
    assert {each.job_id for each in results if isinstance(each, IndexedDocument)} == {
        given.works[0].job_id,
        given.works[2].job_id,
    }
    unusable, empty = sorted(
        (each for each in results if isinstance(each, FailedDocument)), key=lambda each: each.is_its_own
    )
    assert unusable.job_id == given.works[1].job_id
    assert "gave no usable vector" in unusable.reason
    assert empty.job_id == given.works[3].job_id
    assert empty.is_its_own
    assert not empty.is_missing


@pytest.mark.parametrize("silence", ["never told", "time is over", "another run"])
def test_nothing_is_written_without_a_lease(given_texts, silence) -> None:
    given = given_texts("One sentence.")
    if silence != "never told":
        given.node.renew(RUN, (), 60 if silence == "another run" else 0)
    if silence == "another run":
        given.node.renew("another", (), 60)
    assert [each for part in given.results() for each in part] == []
    assert given.point_count(0) == 0
    assert given.services.embedder.embedded_texts == []


def test_a_job_that_is_lost_on_the_way_leaves_the_others(given_texts) -> None:
    def lose(text: str) -> None:
        if "third" in text:
            given.node.renew(RUN, {given.works[0].job_id}, 60)

    given = given_texts("One sentence.", "Another.", "A third.", before=lose)
    given.node.renew(RUN, (), 60)
    found = {each.job_id for part in given.results() for each in part}
    assert found == {given.works[1].job_id, given.works[2].job_id}
    assert [given.point_count(number) for number in range(3)] == [0, 1, 1]


def test_the_progress_of_what_is_worked_on_is_told(given_texts) -> None:
    told: list[dict[str, float]] = []
    given = given_texts(
        "\n\n".join(f"Paragraph {n} of rain." for n in range(300)),
        before=lambda _: told.append(dict(given.node.renew(RUN, (), 60))),
        batch_size=1,
    )
    given.node.renew(RUN, (), 60)
    given.results()
    progress = [each[given.works[0].job_id] for each in told]
    assert progress == sorted(progress)
    assert 0 < progress[0] < progress[-1] <= 1
    assert given.node.renew(RUN, (), 60) == {}


def test_a_part_that_is_away_for_a_moment_is_waited_for(given_texts, monkeypatch) -> None:
    monkeypatch.setattr(node_module, "_FIRST_PAUSE_S", 0.01)
    given = given_texts("One sentence.", "Another.")
    upsert, calls = given.services.index.upsert, []

    def away_at_first(*args) -> None:
        calls.append(args)
        if len(calls) < 3:
            raise UnavailableError("The index of the test is away.")
        upsert(*args)

    monkeypatch.setattr(given.services.index, "upsert", away_at_first)
    given.node.renew(RUN, (), 60)
    assert len(given.results()[0]) == 4
    monkeypatch.setattr(node_module, "_PATIENCE_S", 0.03)
    given.node.renew("second", (), 60)
    monkeypatch.setattr(given.services.index, "points_of", lambda *_: away_at_first())
    calls.clear()
    with pytest.raises(UnavailableError, match="index of the test"):
        given.results("second")


def test_a_wait_that_a_lost_lease_ended_is_no_error(given_texts, monkeypatch) -> None:
    given = given_texts("One sentence.")

    def lose(_: str) -> None:
        given.node.renew("another", (), 60)
        raise UnavailableError("The model was left.")

    monkeypatch.setattr(given.services.embedder, "embed_documents", lambda *_, **__: lose(""))
    given.node.renew(RUN, (), 60)
    assert given.results() == []


def test_blocks_wait_for_a_slot_and_leave_with_their_leases(given_texts) -> None:
    reached, go = threading.Event(), threading.Event()

    def wait(_: str) -> None:
        reached.set()
        assert go.wait(PATIENCE_S)

    given = given_texts("One sentence.", before=wait)
    given.node.renew(RUN, (), 60)
    first = threading.Thread(target=given.results)
    first.start()
    assert reached.wait(PATIENCE_S)
    given.node.renew("another", (), 60)
    assert given.results() == []  # the only slot is taken
    go.set()
    first.join()


@settings(deadline=None)
@given_any(sizes=st.lists(st.integers(1, 50_000), max_size=400), slots=st.integers(1, 64))
def test_every_document_is_in_one_block_and_large_ones_come_first_and_alone(sizes: list[int], slots: int) -> None:
    pytest.importorskip("ray")
    from ingest.ray_engine.runs import blocks_of

    works = [Work(str(number), _document(size)) for number, size in enumerate(sizes)]
    blocks = list(blocks_of(works, slots=slots))
    assert sorted(work.job_id for block in blocks for work in block) == sorted(work.job_id for work in works)
    assert all(1 <= len(block) <= 128 for block in blocks)
    assert all(len(block) == 1 for block in blocks if block[0].document.byte_count > 8_192)
    large = [block[0].document.byte_count for block in blocks if block[0].document.byte_count > 8_192]
    assert large == sorted(large, reverse=True)
    assert [block[0].document.byte_count for block in blocks[: len(large)]] == large


@settings(deadline=None)
@given_any(cpus=st.lists(st.integers(0, 500), min_size=1, max_size=5), gpus=st.integers(0, 8))
def test_a_cluster_is_shared_out_among_models(cpus: list[int], gpus: int) -> None:
    pytest.importorskip("ray")
    from ingest.ray_engine.cluster import NodeSize, find_places

    nodes = [NodeSize(str(number), count, gpus if number == 0 else 0) for number, count in enumerate(cpus)]
    for use_gpus in (True, False):
        if not any(cpus) and not (gpus and use_gpus):
            with pytest.raises(ConflictError, match="no CPU"):
                find_places(nodes, use_gpus=use_gpus)
            continue
        places = find_places(nodes, use_gpus=use_gpus)
        assert len(set(places)) == len(places)
        for node in nodes:
            own = [place for place in places if place.node_id == node.id]
            if gpus and use_gpus:
                assert sum(place.gpus for place in own) == node.gpus
                continue
            assert sum(place.threads or 0 for place in own) <= node.cpus
            assert 2 * sum(place.cpus for place in own) <= node.cpus  # another driver has room beside it
            assert bool(own) == bool(node.cpus)


@settings(deadline=None)
@given_any(cuts=st.lists(st.integers(0, 6), max_size=4), parts=st.integers(1, 4))
def test_a_document_is_gathered_whatever_was_cut_off(cuts: list[int], parts: int) -> None:
    job = Job("j", JobKind.INGEST, "c", "d", JobState.RUNNING, 1, 0, None, None, NOW, 1, NOW, NOW, NOW)
    ids = [f"00000000-0000-0000-0000-{number:012}" for number in range(6)]
    chunks = [Chunk(ids[n], "d", n, "", "f" * 64, n, n + 1, None) for n in range(6)]
    gathered = GatheredDocument(job)
    for end in cuts:  # runs that broke
        gathered.add(IndexedChunks("j", chunks[:end]))
        assert not gathered.is_whole
    for start in range(0, 6, parts):
        gathered.add(IndexedChunks("j", chunks[start : start + parts]))
    gathered.add(IndexedDocument("j", "title", {"year": 1999}))
    assert gathered.is_whole
    assert [each.id for each in gathered.document.chunks] == ids
    assert (gathered.document.title, gathered.document.metadata) == ("title", {"year": 1999})
    gathered.close()


def test_without_its_extra_the_engine_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.commands.bulk.find_spec", lambda name: None)
    with pytest.raises(NotFoundError, match=r"pip install 'gircse-search\[ray\]'"):
        require_ray()


def test_the_engine_cannot_work_for_a_command_that_does_not_wait() -> None:
    result = CliRunner().invoke(app, ["ingest", "a.txt", "--engine", "ray", "--no-wait"])
    assert result.exit_code == 2
    assert "while this command waits" in re.sub(r"[│\s]+", " ", result.output)


def _document(byte_count: int) -> Document:
    state = DocumentState.QUEUED
    return Document("d", COLLECTION, "d.txt", "", "text/plain", "f" * 64, byte_count, {}, state, None, 0, NOW, NOW)
