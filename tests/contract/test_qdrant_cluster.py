"""Indexes on a Qdrant cluster, and where a Qdrant server differs from the embedded engine.

The embedded engine stores the points; a front before it answers as a cluster does. `make server-test` asks real ones.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
from qdrant_front import QdrantFront, qdrant_front

from app.commands.checks import check_index
from app.edge import EdgeProcess
from app.errors import ConflictError, EngineFaultError
from app.maintenance.reindex import Reindexer
from app.search.judgements import new_lens
from app.settings import load_settings
from app.types.documents import Point
from app.types.upkeep import ContractChange
from app.vectors import QdrantVectorIndex, Sharding
from app.vectors.cluster import OTHER_REPLICA_AFTER_MS

NAME = "docs--1"
NORTH = [0.0, 1.0, 0.0]


def point_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeProcess]:
    with EdgeProcess(tmp_path_factory.mktemp("edge")) as process:
        yield process


@pytest.fixture
def front_of(edge: EdgeProcess) -> Iterator[Callable[..., QdrantFront]]:
    with ExitStack() as opened:

        def open_front(**options: Any) -> QdrantFront:
            connection = edge.start()
            return opened.enter_context(qdrant_front(connection.url, connection.token, **options))

        yield open_front


@pytest.fixture
def index_of() -> Iterator[Callable[..., QdrantVectorIndex]]:
    with ExitStack() as opened:

        def open_index(front: QdrantFront, **options: Any) -> QdrantVectorIndex:
            index = QdrantVectorIndex.at(front.url, api_key="a key", **options)
            opened.callback(index.close)
            for name in index.indexes():
                index.drop(name)
            return index

        yield open_index


@pytest.mark.parametrize(
    ("nodes", "sharding", "chosen"),
    [
        (1, Sharding(), (None, None)),
        (2, Sharding(), (2, 2)),
        (3, Sharding(), (3, 2)),
        (5, Sharding(), (5, 2)),
        (3, Sharding(shards=6), (6, 2)),
        (3, Sharding(replicas=3), (3, 3)),
        (3, Sharding(shards=1, replicas=1), (1, 1)),
        (1, Sharding(shards=2), (2, None)),
    ],
)
def test_an_index_is_made_for_the_nodes_of_its_cluster(
    front_of: Callable[..., QdrantFront],
    index_of: Callable[..., QdrantVectorIndex],
    nodes: int,
    sharding: Sharding,
    chosen: tuple[int | None, int | None],
) -> None:
    front = front_of(nodes=nodes)
    index_of(front, sharding=sharding).create(NAME, dimension=3)
    asked = front.created[NAME]
    assert (asked.get("shard_number"), asked.get("replication_factor")) == chosen


@pytest.mark.parametrize(("replicas", "delay"), [(1, None), (2, OTHER_REPLICA_AFTER_MS)])
def test_another_replica_is_read_if_the_first_one_hangs(
    front_of: Callable[..., QdrantFront],
    index_of: Callable[..., QdrantVectorIndex],
    replicas: int,
    delay: int | None,
) -> None:
    front = front_of(nodes=3)
    index = index_of(front, sharding=Sharding(replicas=replicas))
    index.create(NAME, dimension=3)
    assert front.params[NAME].get("read_fan_out_delay_ms") == delay
    front.params[NAME].pop("read_fan_out_delay_ms", None)  # an index of an earlier release
    index.optimize(NAME)
    assert front.params[NAME].get("read_fan_out_delay_ms") == delay


def test_an_index_that_another_process_makes_at_the_same_time_is_used(
    front_of: Callable[..., QdrantFront], index_of: Callable[..., QdrantVectorIndex]
) -> None:
    """Also when an answer is lost, and the request repeated."""
    index = index_of(front_of())
    index.client.collection_exists = lambda *_, **__: False  # type: ignore[method-assign]
    index.create(NAME, dimension=3)
    index.create(NAME, dimension=3)
    with pytest.raises(ConflictError, match="dimension 4"):
        index.create(NAME, dimension=4)


@pytest.mark.parametrize(
    ("nodes", "copies", "replicas", "is_lone"),
    [
        (1, [1], None, False),  # no cluster
        (3, [2, 2, 2], None, False),
        (3, [2, 1, 2], None, True),
        (3, [1, 1, 1], None, True),
        (3, [1, 1, 1], 1, False),  # as it was asked for
    ],
)
def test_an_index_that_a_lost_node_takes_away_is_known(
    front_of: Callable[..., QdrantFront],
    index_of: Callable[..., QdrantVectorIndex],
    nodes: int,
    copies: list[int],
    replicas: int | None,
    is_lone: bool,
) -> None:
    index = index_of(front_of(nodes=nodes, copies={NAME: copies}), sharding=Sharding(replicas=replicas))
    index.create(NAME, dimension=3)
    assert index.lacks_replicas(NAME) is is_lone


def test_doctor_names_collections_that_a_lost_node_takes_away_and_reindex_mends_them(
    front_of: Callable[..., QdrantFront],
    index_of: Callable[..., QdrantVectorIndex],
    toy_services_factory: Callable[..., Any],
) -> None:
    front = front_of(nodes=3, copies={"library--1": [1, 1, 1]})
    services = toy_services_factory(index=index_of(front)).services
    services.library.ensure_collection("library")
    home = services.settings.home
    settings = load_settings(home=home, qdrant_url=front.url, database_url=f"sqlite:///{home}/catalog_test.db")
    lone = check_index(settings)
    assert not lone.is_well
    assert "library" in lone.detail
    assert "gircse reindex" in lone.advice
    reindexer = Reindexer(
        catalog=services.catalog,
        index=services.index,
        blobs=services.blobs,
        embedder=services.embedder,
        index_documents=lambda documents, collection: nullcontext(),  # type: ignore[arg-type] - there are none
        small_bytes=1_000,
    )
    reindexer.build(reindexer.begin("library", ContractChange()))
    assert check_index(settings).is_well
    with pytest.raises(ConflictError, match="already has these settings"):
        reindexer.begin("library", ContractChange())


def labelled(index: QdrantVectorIndex) -> None:
    index.create(NAME, dimension=3)
    payload = {"page_content": "a text", "metadata": {"document_id": "d1"}}
    index.upsert(NAME, [Point(point_id(number), NORTH, payload) for number in range(1, 2_500)])
    index.add_labels(NAME, "lens_a")
    index.set_labels(NAME, "lens_a", {point_id(number): {"value": number % 3} for number in range(1, 2_400)})


@pytest.mark.timeout(120)
def test_labels_are_deleted_where_the_index_of_numbers_keeps_them(
    front_of: Callable[..., QdrantFront], index_of: Callable[..., QdrantVectorIndex]
) -> None:
    index = index_of(front_of(lingers=True))
    labelled(index)
    index.drop_labels(NAME, "lens_a")
    assert index.count_unlabelled(NAME, "lens_a") == 2_499
    assert not any("lens_a" in point.payload for point in index.retrieve(NAME, [point_id(1), point_id(2_399)]))
    index.drop_labels(NAME, "lens_a")  # again, as after a crash


@pytest.mark.timeout(120)
def test_an_engine_that_does_not_delete_labels_is_reported_and_not_asked_for_ever(
    front_of: Callable[..., QdrantFront], index_of: Callable[..., QdrantVectorIndex]
) -> None:
    index = index_of(front_of(forgets_deletions=True))
    labelled(index)
    with pytest.raises(EngineFaultError, match=r"lens_a.*2399 points"):
        index.drop_labels(NAME, "lens_a")


@pytest.mark.timeout(120)
def test_an_engine_that_does_not_keep_labels_is_reported_and_not_asked_for_ever(
    front_of: Callable[..., QdrantFront],
    index_of: Callable[..., QdrantVectorIndex],
    toy_services_factory: Callable[..., Any],
) -> None:
    front = front_of()
    application = toy_services_factory(index=index_of(front))
    application.add("A heron stands in the river.")
    services = application.services
    services.catalog.save_lens(new_lens("animals", "Which animal is it about?", values=("heron", "fox")))
    services.lens_indexes.build("library", "animals")
    front.forgets_labels = True
    application.work_off()
    assert "does not store labels" in (services.catalog.jobs(limit=1)[0].error or "")
    front.forgets_labels = False


@pytest.mark.parametrize(
    ("address", "is_told"),
    [
        ("http://127.0.0.1:6333", False),
        ("http://10.1.2.3:6333", False),
        ("http://172.18.0.4:6333", False),  # a network of Docker
        ("http://[fd00::1]:6333", False),
        ("https://8.8.8.8:6333", False),
        ("http://8.8.8.8:6333", True),
        ("http://[2001:4860:4860::8888]:6333", True),
    ],
)
def test_a_key_that_would_cross_a_public_network_unencrypted_is_told(
    caplog: pytest.LogCaptureFixture, address: str, is_told: bool
) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error", UserWarning)
        QdrantVectorIndex.at(address, api_key="a key").close()
    assert ("https" in caplog.text) is is_told
    assert "a key" not in caplog.text
