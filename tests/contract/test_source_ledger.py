"""Scheduled sources in the catalog, on SQLite and on a real PostgreSQL: schedule, leases, marks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from catalog_samples import Clock

from app.catalog import SqlCatalog
from app.errors import ConflictError, LeaseLostError, NotFoundError, UnknownCollectionError
from app.types.sources import ItemMark, RecurringSource, Round, SourceKind, SourceOptions

LEASE, HOUR = timedelta(minutes=3), timedelta(hours=1)
OPTIONS = SourceOptions(("docs/", "!*.txt"), "main", "token")


@pytest.fixture
def added(catalog: SqlCatalog) -> Callable[..., RecurringSource]:
    def add(name: str = "a", owner: str = "anna", options: SourceOptions = OPTIONS) -> RecurringSource:
        return catalog.sources.add(
            "library", SourceKind.GIT, f"https://host/{name}", every=HOUR, removes=True, owner=owner, options=options
        )

    return add


def test_a_source_is_kept_as_it_was_added_and_changed(
    catalog: SqlCatalog, added: Callable[..., RecurringSource]
) -> None:
    first, _ = added(), added("b")
    assert [each.address for each in catalog.sources.of_collection("library")] == ["https://host/a", "https://host/b"]
    assert catalog.sources.get(first.id) == first
    assert (first.options, first.every, first.removes, first.owner) == (OPTIONS, HOUR, True, "anna")
    changed = added(owner="ben", options=SourceOptions())
    assert (changed.id, changed.owner, changed.options) == (first.id, "ben", SourceOptions())
    with pytest.raises(UnknownCollectionError):
        catalog.sources.of_collection("gone")
    catalog.sources.delete(first.id)
    with pytest.raises(NotFoundError):
        catalog.sources.get(first.id)
    catalog.delete_collection("library")
    assert catalog.sources.claim(lease=LEASE) is None


def test_a_collection_has_so_many_sources(
    catalog: SqlCatalog, added: Callable[..., RecurringSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.catalog.recurring_sources.MAX_SOURCES", 1)
    added()
    added()
    with pytest.raises(ConflictError, match="delete one"):
        added("b")


def test_each_round_is_one_workers(catalog: SqlCatalog, clock: Clock, added: Callable[..., RecurringSource]) -> None:
    source, claims = added(), []
    threads = [threading.Thread(target=lambda: claims.append(catalog.sources.claim(lease=LEASE))) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    [held] = [each for each in claims if each is not None]
    assert (held.id, held.is_running) == (source.id, True)
    assert catalog.sources.hurry(source.id).is_running  # it goes on, and is not begun twice
    assert catalog.sources.claim(lease=LEASE) is None
    clock.advance(LEASE)
    catalog.sources.prolong(held, lease=LEASE)
    assert catalog.sources.claim(lease=LEASE) is None
    clock.advance(LEASE)  # it was killed
    again = catalog.sources.claim(lease=LEASE)
    assert again is not None
    for late in (
        lambda: catalog.sources.prolong(held, lease=LEASE),
        lambda: catalog.sources.mark_item(held, "x", ItemMark("1")),
    ):
        with pytest.raises(LeaseLostError):
            late()
    catalog.sources.end_round(held, Round(9, 9, 9, "late"))
    assert catalog.sources.get(source.id).is_running
    catalog.sources.end_round(again, Round(1, 2, 3, "why"))
    ended = catalog.sources.get(source.id)
    assert (ended.changed, ended.removed, ended.failed, ended.error, ended.is_running) == (1, 2, 3, "why", False)
    assert (ended.last_at, ended.next_at) == (clock.now, clock.now + HOUR)
    assert catalog.sources.claim(lease=LEASE) is None
    clock.advance(HOUR)
    assert catalog.sources.claim(lease=LEASE) is not None


def test_marks_are_of_a_source_and_go_with_it(catalog: SqlCatalog, added: Callable[..., RecurringSource]) -> None:
    added()
    held = catalog.sources.claim(lease=LEASE)
    assert held is not None
    catalog.sources.mark_item(held, "x", ItemMark("1", "Monday"))
    catalog.sources.mark_item(held, "y", ItemMark("2"))
    catalog.sources.mark_item(held, "x", ItemMark("3"))
    assert catalog.sources.marks(held.id) == {"x": ItemMark("3"), "y": ItemMark("2")}
    assert catalog.sources.get(held.id).items == 2
    catalog.sources.mark_item(held, "y", None)
    assert catalog.sources.marks(held.id) == {"x": ItemMark("3")}
    catalog.sources.delete(held.id)
    with pytest.raises(LeaseLostError):
        catalog.sources.mark_item(held, "x", ItemMark("4"))
    assert catalog.sources.marks(held.id) == {}


def test_a_round_is_of_the_source_as_it_was(catalog: SqlCatalog, added: Callable[..., RecurringSource]) -> None:
    added()
    held = catalog.sources.claim(lease=LEASE)
    assert held is not None
    added()  # as it is
    catalog.sources.prolong(held, lease=LEASE)
    added(options=SourceOptions())
    with pytest.raises(LeaseLostError):
        catalog.sources.prolong(held, lease=LEASE)
    again = catalog.sources.claim(lease=LEASE)
    assert again is not None
    assert (again.id, again.options) == (held.id, SourceOptions())


def test_no_owner_has_all_rounds(catalog: SqlCatalog, clock: Clock, added: Callable[..., RecurringSource]) -> None:
    for name in "abc":
        added(name)
    clock.advance(HOUR)
    added("z", owner="ben")

    def claimed() -> str | None:
        found = catalog.sources.claim(lease=LEASE, most_of_owner=2)
        return None if found is None else found.address[-1]

    first = claimed()
    assert first in {"a", "b", "c"}  # they have waited longer
    assert claimed() == "z"  # nothing of ben goes on yet
    assert claimed() in {"a", "b", "c"}
    assert claimed() is None  # anna has two
    clock.advance(LEASE)  # workers that were killed count no more
    assert claimed() is not None


@pytest.mark.parametrize("stage", ["added", "synced", "syncing"])
def test_a_source_does_not_wait_for_a_clock_that_was_ahead(
    catalog: SqlCatalog, clock: Clock, added: Callable[..., RecurringSource], stage: str
) -> None:
    clock.advance(timedelta(days=365))
    added()
    if stage != "added":
        claimed = catalog.sources.claim(lease=LEASE)
        assert claimed is not None
        if stage == "synced":
            catalog.sources.end_round(claimed, Round())
    clock.advance(-timedelta(days=365))
    again = catalog.sources.claim(lease=LEASE)
    assert again is not None
    catalog.sources.end_round(again, Round())
    assert catalog.sources.claim(lease=LEASE) is None
    clock.advance(HOUR)
    assert catalog.sources.claim(lease=LEASE) is not None
