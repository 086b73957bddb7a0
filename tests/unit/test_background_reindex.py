"""Indexing anew in threads of the serving process: one at a time per collection, stopped, resumed, and told of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from patience import PATIENCE_S, wait_until

from app.errors import ConflictError, InputError, UnavailableError, UnknownCollectionError
from app.maintenance.background_reindex import BackgroundReindexing
from app.maintenance.reindex import Reindexer
from app.testing import ToyEmbedder
from app.types.access import Principal, Role, acting_as
from app.types.documents import Collection, Document
from app.types.upkeep import ContractChange, ReindexState

SHORTER = ContractChange(chunk_tokens=16, chunk_overlap=0)
COUNT = 6


class GatedEmbedder(ToyEmbedder):
    """Documents wait until `unblocked` is set; `error` is raised once instead of embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.unblocked = threading.Event()
        self.unblocked.set()
        self.error: Exception | None = None

    def embed_documents(self, texts: Sequence[str], *, instruction: str, steps: int) -> list[list[float]]:
        if list(texts) != ["a"]:  # the check of a contract
            assert self.unblocked.wait(timeout=PATIENCE_S)
            if self.error is not None:
                error, self.error = self.error, None
                raise error
        return super().embed_documents(texts, instruction=instruction, steps=steps)


@pytest.fixture
def application(toy_services_factory: Callable[..., Any]) -> Any:
    application = toy_services_factory(embedder=GatedEmbedder())
    for number in range(COUNT):
        application.add(
            f"The harbour of town {number} has boats. Its lighthouse is old. Fishermen bring cod every day."
        )
    return application


@pytest.fixture
def reindexing_factory(application: Any) -> Iterator[Callable[[], BackgroundReindexing]]:
    services, made = application.services, []

    @contextmanager
    def open_reindexer(is_stopping: Callable[[], bool]) -> Iterator[Reindexer]:
        @contextmanager
        def index_documents(documents: Sequence[Document], collection: Collection) -> Iterator[Any]:
            with application.pipeline.index_documents(documents, collection, heartbeat=lambda *_: None) as indexed:
                yield indexed

        yield Reindexer(
            catalog=services.catalog,
            index=services.index,
            blobs=services.blobs,
            embedder=application.embedder,
            index_documents=index_documents,
            small_bytes=0,  # one by one
        )

    def make() -> BackgroundReindexing:
        made.append(BackgroundReindexing(services.catalog, open_reindexer=open_reindexer))
        return made[-1]

    yield make
    application.embedder.unblocked.set()
    for each in made:
        each.close()


@pytest.fixture
def reindexing(reindexing_factory: Callable[[], BackgroundReindexing]) -> BackgroundReindexing:
    return reindexing_factory()


def wait_for(reindexing: BackgroundReindexing, state: ReindexState) -> Any:
    wait_until(lambda: reindexing.status("library").state is state, told=lambda: reindexing.status("library"))
    return reindexing.status("library")


def test_it_is_built_switched_to_told_of_and_taken_back(application: Any, reindexing: BackgroundReindexing) -> None:
    assert reindexing.status("library").state is ReindexState.NONE
    assert reindexing.start("library", SHORTER).total in (0, COUNT)
    done = wait_for(reindexing, ReindexState.DONE)
    assert (done.done, done.total, done.error, done.unreadable, done.can_roll_back) == (COUNT, COUNT, None, 0, True)
    assert (done.contract["chunk_tokens"], done.contract["chunk_overlap"]) == (16, 0)
    assert application.services.catalog.collection("library").active_index == "library--2"
    assert reindexing.roll_back("library").active_index == "library--1"


def test_one_that_ends_while_its_status_is_read_still_runs_or_can_be_taken_back(
    application: Any, reindexing: BackgroundReindexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby = application.services.catalog.indexes.standby

    def ends_meanwhile(*asked: Any) -> Any:
        found = standby(*asked)
        application.embedder.unblocked.set()
        reindexing._runs["library"].future.result(PATIENCE_S)
        return found

    application.embedder.unblocked.clear()
    reindexing.start("library", SHORTER)
    wait_for(reindexing, ReindexState.RUNNING)
    monkeypatch.setattr(reindexing._catalog.indexes, "standby", ends_meanwhile)
    status = reindexing.status("library")
    assert status.state is ReindexState.RUNNING or status.can_roll_back


def test_a_second_one_of_the_same_collection_is_refused_while_it_runs(
    application: Any, reindexing: BackgroundReindexing
) -> None:
    application.embedder.unblocked.clear()
    reindexing.start("library", SHORTER)
    running = wait_for(reindexing, ReindexState.RUNNING)
    assert running.contract["chunk_tokens"] == 16
    with pytest.raises(ConflictError, match="already"):
        reindexing.start("library", ContractChange(chunk_tokens=32))
    application.embedder.unblocked.set()
    wait_for(reindexing, ReindexState.DONE)
    reindexing.start("library", ContractChange(chunk_tokens=32))
    wait_for(reindexing, ReindexState.DONE)


def test_the_runs_of_one_user_leave_room_for_those_of_others(
    application: Any, reindexing: BackgroundReindexing
) -> None:
    first, second, third = "library", "second", "third"
    for name in (second, third):
        application.add("The harbour has boats. Its lighthouse is old. Fishermen bring cod.", collection=name)
    application.embedder.unblocked.clear()
    try:
        with acting_as(Principal("mallory", Role.EDITOR, ("*",))):
            for name in (first, second):
                reindexing.start(name, SHORTER)
        with acting_as(Principal("anna", Role.EDITOR, ("*",))):
            reindexing.start(third, SHORTER)
        wait_until(lambda: reindexing.status(third).total == 1)  # known once it runs
        assert (reindexing.status(second).state, reindexing.status(second).total) == (ReindexState.RUNNING, 0)
    finally:
        application.embedder.unblocked.set()
    for name in (first, second, third):
        wait_until(lambda name=name: reindexing.status(name).state is ReindexState.DONE)


def test_what_cannot_be_is_told_at_once_and_blocks_nothing(application: Any, reindexing: BackgroundReindexing) -> None:
    with pytest.raises(ConflictError, match="already has these settings"):
        reindexing.start("library", ContractChange())
    with pytest.raises(InputError, match="chunk_tokens"):
        reindexing.start("library", ContractChange(chunk_tokens=1))
    with pytest.raises(UnknownCollectionError):
        reindexing.start("other", SHORTER)
    with pytest.raises(UnknownCollectionError):
        reindexing.status("other")
    with pytest.raises(ConflictError, match="no previous index"):
        reindexing.roll_back("library")
    reindexing.start("library", SHORTER)
    wait_for(reindexing, ReindexState.DONE)


@pytest.mark.parametrize(
    ("error", "told"),
    [(UnavailableError("The disk is away."), "disk is away"), (RuntimeError("hunter2"), "server's log")],
)
def test_a_failure_says_why_and_the_next_start_goes_on(
    application: Any, reindexing: BackgroundReindexing, error: Exception, told: str
) -> None:
    application.embedder.error = error
    reindexing.start("library", SHORTER)
    failed = wait_for(reindexing, ReindexState.FAILED)
    assert told in failed.error
    assert "hunter2" not in failed.error
    assert (failed.done, failed.total, failed.can_roll_back) == (0, COUNT, False)
    assert application.services.catalog.collection("library").active_index == "library--1"
    reindexing.start("library", ContractChange())
    assert wait_for(reindexing, ReindexState.DONE).done == COUNT


def test_what_a_process_left_half_built_is_seen_and_finished_by_the_next(
    application: Any, reindexing_factory: Callable[[], BackgroundReindexing]
) -> None:
    first = reindexing_factory()
    application.embedder.unblocked.clear()
    first.start("library", SHORTER)
    wait_for(first, ReindexState.RUNNING)
    closing = threading.Thread(target=first.close)
    closing.start()
    application.embedder.unblocked.set()
    closing.join(timeout=PATIENCE_S)

    second = reindexing_factory()
    left = second.status("library")
    assert (left.state, left.total, left.contract["chunk_tokens"]) == (ReindexState.HALF_BUILT, COUNT, 16)
    assert left.done < COUNT
    with pytest.raises(ConflictError, match="unfinished index"):
        second.start("library", ContractChange(chunk_tokens=64))
    second.start("library", ContractChange(chunk_tokens=64), restart=True)
    assert wait_for(second, ReindexState.DONE).contract["chunk_tokens"] == 64
