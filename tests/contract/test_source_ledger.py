"""Scheduled sources in the catalog, on SQLite and on a real PostgreSQL: schedule, leases, marks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from catalog_samples import Clock

from app.catalog import SqlCatalog
from app.errors import ConflictError, LeaseLostError, NotFoundError, UnknownCollectionError
from app.types.sources import Mark, RecurringSource, Round, SourceKind, SourceOptions

LEASE, HOUR = timedelta(minutes=3), timedelta(hours=1)
OPTIONS = SourceOptions(("docs/", "!*.txt"), "main", "token")


@pytest.fixture
def added(catalog: SqlCatalog) -> Callable[..., RecurringSource]:
    def add(name: str = "a", owner: str = "anna", options: SourceOptions = OPTIONS) -> RecurringSource:
        return catalog.add_recurring_source(
            "library", SourceKind.GIT, f"https://host/{name}", every=HOUR, removes=True, owner=owner, options=options
        )

    return add


def test_a_source_is_kept_as_it_was_added_and_changed(
    catalog: SqlCatalog, added: Callable[..., RecurringSource]
) -> None:
    first, _ = added(), added("b")
    assert [each.address for each in catalog.recurring_sources("library")] == ["https://host/a", "https://host/b"]
    assert catalog.recurring_source(first.id) == first
    assert (first.options, first.every, first.removes, first.owner) == (OPTIONS, HOUR, True, "anna")
    changed = added(owner="ben", options=SourceOptions())
    assert (changed.id, changed.owner, changed.options) == (first.id, "ben", SourceOptions())
    with pytest.raises(UnknownCollectionError):
        catalog.recurring_sources("gone")
    catalog.delete_recurring_source(first.id)
    with pytest.raises(NotFoundError):
        catalog.recurring_source(first.id)
    catalog.delete_collection("library")
    assert catalog.claim_recurring_source(lease=LEASE) is None


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
    threads = [
        threading.Thread(target=lambda: claims.append(catalog.claim_recurring_source(lease=LEASE))) for _ in range(4)
    ]
    [each.start() for each in threads]
    [each.join() for each in threads]
    [held] = [each for each in claims if each is not None]
    assert (held.id, held.is_running) == (source.id, True)
    assert catalog.hurry_recurring_source(source.id).is_running  # it goes on, and is not begun twice
    assert catalog.claim_recurring_source(lease=LEASE) is None
    clock.advance(LEASE)
    catalog.prolong_recurring_source(held, lease=LEASE)
    assert catalog.claim_recurring_source(lease=LEASE) is None
    clock.advance(LEASE)  # it was killed
    again = catalog.claim_recurring_source(lease=LEASE)
    assert again is not None
    for late in (
        lambda: catalog.prolong_recurring_source(held, lease=LEASE),
        lambda: catalog.mark_item(held, "x", Mark("1")),
    ):
        with pytest.raises(LeaseLostError):
            late()
    catalog.end_round(held, Round(9, 9, 9, "late"))
    assert catalog.recurring_source(source.id).is_running
    catalog.end_round(again, Round(1, 2, 3, "why"))
    ended = catalog.recurring_source(source.id)
    assert (ended.changed, ended.removed, ended.failed, ended.error, ended.is_running) == (1, 2, 3, "why", False)
    assert (ended.last_at, ended.next_at) == (clock.now, clock.now + HOUR)
    assert catalog.claim_recurring_source(lease=LEASE) is None
    clock.advance(HOUR)
    assert catalog.claim_recurring_source(lease=LEASE) is not None


def test_marks_are_of_a_source_and_go_with_it(catalog: SqlCatalog, added: Callable[..., RecurringSource]) -> None:
    added()
    held = catalog.claim_recurring_source(lease=LEASE)
    assert held is not None
    catalog.mark_item(held, "x", Mark("1", "Monday"))
    catalog.mark_item(held, "y", Mark("2"))
    catalog.mark_item(held, "x", Mark("3"))
    assert catalog.source_marks(held.id) == {"x": Mark("3"), "y": Mark("2")}
    assert catalog.recurring_source(held.id).items == 2
    catalog.mark_item(held, "y", None)
    assert catalog.source_marks(held.id) == {"x": Mark("3")}
    catalog.delete_recurring_source(held.id)
    with pytest.raises(LeaseLostError):
        catalog.mark_item(held, "x", Mark("4"))
    assert catalog.source_marks(held.id) == {}


def test_a_round_is_of_the_source_as_it_was(catalog: SqlCatalog, added: Callable[..., RecurringSource]) -> None:
    added()
    held = catalog.claim_recurring_source(lease=LEASE)
    assert held is not None
    added()  # as it is
    catalog.prolong_recurring_source(held, lease=LEASE)
    added(options=SourceOptions())
    with pytest.raises(LeaseLostError):
        catalog.prolong_recurring_source(held, lease=LEASE)
    again = catalog.claim_recurring_source(lease=LEASE)
    assert again is not None
    assert (again.id, again.options) == (held.id, SourceOptions())


def test_no_owner_has_all_rounds(catalog: SqlCatalog, clock: Clock, added: Callable[..., RecurringSource]) -> None:
    for name in "abc":
        added(name)
    clock.advance(HOUR)
    added("z", owner="ben")

    def claimed() -> str | None:
        found = catalog.claim_recurring_source(lease=LEASE, most_of_owner=2)
        return None if found is None else found.address[-1]

    first = claimed()
    assert first in {"a", "b", "c"}  # they have waited longer
    assert claimed() == "z"  # nothing of ben goes on yet
    assert claimed() in {"a", "b", "c"}
    assert claimed() is None  # anna has two
    clock.advance(LEASE)  # workers that were killed count no more
    assert claimed() is not None
