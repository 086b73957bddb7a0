"""Several processes write the same thing at the same time: one is kept whole, and none gets a fault of the database.

Changes of a user, jobs, documents and their quotas have tests of their own beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LIBRARY, Clock
from patience import PATIENCE_S

from app.catalog import SqlCatalog
from app.types.documents import Judgement, Lens
from app.types.search import Leg
from app.types.searches import SavedSearch
from app.types.sources import SourceKind, SourceOptions
from app.types.standing import Watch
from app.types.weights import CrossValidation, WeightTuning

WRITERS, ROUNDS = 6, 5

Write = Callable[[SqlCatalog, int, str], object]  # by whom, and the name of what is written


def save_search(catalog: SqlCatalog, writer: int, name: str) -> SavedSearch:
    return catalog.searches.save_search("anna", name, {"query": f"by {writer}", "collection": "library"})


def save_lens(catalog: SqlCatalog, writer: int, name: str) -> None:
    catalog.save_lens(Lens(name, f"by {writer}", note=f"by {writer}", values=(f"a{writer}", f"b{writer}")))


def index_lens(catalog: SqlCatalog, writer: int, name: str) -> None:
    catalog.lens_indexes.queue("library", name, [f"a{writer}", f"b{writer}"])


def add_source(catalog: SqlCatalog, writer: int, name: str) -> None:
    catalog.sources.add(
        "library",
        SourceKind.GIT,
        f"https://host/{name}",
        every=timedelta(hours=1 + writer),
        removes=True,
        owner=f"by {writer}",
        options=SourceOptions((f"{writer}/",)),
    )


def watch(catalog: SqlCatalog, writer: int, name: str) -> None:
    [saved] = [each for each in catalog.searches.saved_searches("ben") if each.name == name]
    catalog.standing.watch("ben", saved.id, Watch(webhook=f"https://host/{writer}"))


def create_collection(catalog: SqlCatalog, writer: int, name: str) -> None:
    catalog.create_collection(replace(LIBRARY, name=name, active_index=f"{name}--{writer}"))


def record_search(catalog: SqlCatalog, writer: int, name: str) -> None:
    catalog.searches.record_search("anna", {"query": name, "collection": "library", "steps": writer}, keep=100)


def count(catalog: SqlCatalog, what: Write, name: str) -> int:
    found: dict[Write, Callable[[], list[str]]] = {
        save_search: lambda: [each.name for each in catalog.searches.saved_searches("anna")],
        save_lens: lambda: [each.name for each in catalog.lenses()],
        index_lens: lambda: [each.lens for each in catalog.lens_indexes.of_collection("library")],
        add_source: lambda: [each.address.rpartition("/")[2] for each in catalog.sources.of_collection("library")],
        watch: lambda: [each.name for each in catalog.standing.of_owner("ben")],
        create_collection: lambda: [each.name for each in catalog.collections()],
        record_search: lambda: [
            str(each.request["query"]) for each in catalog.searches.past_searches("anna", limit=100)
        ],
    }
    return found[what]().count(name)


def at_the_same_time(write: Callable[[int], object]) -> None:
    begin = threading.Barrier(WRITERS)

    def one(writer: int) -> None:
        begin.wait(PATIENCE_S)
        write(writer)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(one, range(WRITERS)))


@pytest.mark.parametrize(
    "write", [save_search, save_lens, index_lens, add_source, watch, create_collection, record_search]
)
def test_the_same_thing_is_made_once(catalog: SqlCatalog, write: Write) -> None:
    for name in map("name-{}".format, range(ROUNDS)):
        catalog.searches.save_search("ben", name, {"query": name, "collection": "library"})
        at_the_same_time(lambda writer, name=name: write(catalog, writer, name))
        assert count(catalog, write, name) == 1


def test_a_lens_is_that_of_one_writer(catalog: SqlCatalog) -> None:
    for name in map("name-{}".format, range(ROUNDS)):
        at_the_same_time(lambda writer, name=name: save_lens(catalog, writer, name))
        lens = catalog.lens(name)
        writer = lens.note.removeprefix("by ")
        assert lens == Lens(name, f"by {writer}", note=f"by {writer}", values=(f"a{writer}", f"b{writer}"))


def test_a_judgement_is_that_of_one_writer(catalog: SqlCatalog, ingested: Callable[..., str], clock: Clock) -> None:
    document = ingested()
    for query in map("query {}".format, range(ROUNDS)):
        at_the_same_time(
            lambda writer, query=query: catalog.save_judgement(
                Judgement(document, query, "", writer % 4, "anna", clock())
            )
        )
    assert sum(map(len, catalog.judgement_pages("library"))) == ROUNDS


def test_one_tuning_is_applied(catalog: SqlCatalog, clock: Clock) -> None:
    validation = CrossValidation(8, 32, 5, 0.5, 0.6, 0.02)
    for number in range(ROUNDS):
        at_the_same_time(
            lambda writer, number=number: catalog.weights.save(
                WeightTuning(f"{number}-{writer}", "library", {Leg.SPARSE: 1.0}, validation, "ann", clock(), True)
            )
        )
        assert sum(each.is_applied for each in catalog.weights.tunings("library")) == 1
