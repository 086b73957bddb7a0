"""Saved and past searches belong to one person each, are bounded, and go with their owner; on both databases."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import ANY

import pytest
from catalog_samples import Clock

from app.catalog import SqlCatalog, searches
from app.errors import ConflictError, NotFoundError
from app.types.access import Role, User
from app.types.searches import PastSearch, SavedSearch


def asked(query: str, **more: object) -> dict[str, object]:
    return {"query": query, "collection": "library", **more}


def test_a_search_is_saved_under_a_name_of_its_owners(catalog: SqlCatalog, clock: Clock) -> None:
    first = catalog.searches.save_search("anna", "cards", asked("late \ud800 cards\0", filters={"kind": "note"}))
    assert first == SavedSearch(ANY, "anna", "cards", asked("late \ud800 cards\0", filters={"kind": "note"}), clock.now)
    catalog.searches.save_search("anna", "bills", asked("bills"))
    other = catalog.searches.save_search("ben", "cards", asked("other"))
    clock.advance(timedelta(days=1))
    replaced = catalog.searches.save_search("anna", "cards", asked("new"))
    assert (replaced.id, replaced.created_at, replaced.request) == (first.id, first.created_at, asked("new"))
    assert [each.name for each in catalog.searches.saved_searches("anna")] == ["bills", "cards"]
    assert catalog.searches.saved_search("ben", other.id) == other
    for refused in (catalog.searches.saved_search, catalog.searches.delete_saved_search):
        with pytest.raises(NotFoundError):
            refused("anna", other.id)
    catalog.searches.delete_saved_search("anna", first.id)
    assert [each.name for each in catalog.searches.saved_searches("anna")] == ["bills"]
    assert catalog.searches.saved_searches("ben") == [other]


def test_saved_searches_are_bounded(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "MAX_SAVED_SEARCHES", 2)
    catalog.searches.save_search("anna", "one", asked("one"))
    catalog.searches.save_search("anna", "two", asked("two"))
    with pytest.raises(ConflictError, match="the maximum"):
        catalog.searches.save_search("anna", "three", asked("three"))
    catalog.searches.save_search("anna", "two", asked("second"))
    catalog.searches.save_search("ben", "three", asked("three"))


def test_saved_searches_are_bounded_in_size(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list of them reads them all."""
    catalog.searches.save_search("anna", "one", asked("x" * 1_000))
    monkeypatch.setattr(searches, "MAX_SAVED_CHARACTERS", 1_500)
    with pytest.raises(ConflictError, match=r"of at most 1,500; delete one first"):
        catalog.searches.save_search("anna", "two", asked("x" * 1_000))
    with pytest.raises(ConflictError, match="of at most 1,500"):
        catalog.searches.save_search("anna", "one", asked("x" * 2_000))
    catalog.searches.save_search("anna", "two", asked("x"))
    catalog.searches.save_search("ben", "two", asked("x" * 1_000))
    monkeypatch.setattr(searches, "MAX_SAVED_CHARACTERS", 10)
    catalog.searches.save_search("anna", "one", asked("y" * 1_000))  # in the place of one that is as long


def test_history_has_each_query_once_and_keeps_the_newest(catalog: SqlCatalog, clock: Clock) -> None:
    for query, more in (("a", {"steps": 1}), ("b", {}), ("a", {"steps": 5}), ("a", {"instruction": "i"}), ("c", {})):
        clock.advance(timedelta(seconds=1))
        catalog.searches.record_search("anna", asked(query, **more), keep=3)
    catalog.searches.record_search("ben", asked("z"), keep=3)
    found = catalog.searches.past_searches("anna", limit=10)
    assert [each.request for each in found] == [asked("c"), asked("a", instruction="i"), asked("a", steps=5)]
    assert found[0] == PastSearch(ANY, "anna", asked("c"), clock.now)
    assert catalog.searches.past_searches("anna", limit=1) == found[:1]
    assert catalog.searches.forget_searches("ben", found[0].id) == 0
    assert catalog.searches.forget_searches("anna", found[0].id) == 1
    assert catalog.searches.forget_searches("anna") == 2
    assert catalog.searches.past_searches("anna", limit=10) == []
    assert len(catalog.searches.past_searches("ben", limit=10)) == 1


def test_searches_go_with_their_owner(catalog: SqlCatalog, clock: Clock) -> None:
    for name in ("anna", "ben"):
        catalog.access.add_user(User(name, Role.READER, clock.now))
        catalog.searches.save_search(name, "cards", asked("cards"))
        catalog.searches.record_search(name, asked("cards"), keep=10)
    catalog.access.delete_user("anna")
    assert (catalog.searches.saved_searches("anna"), catalog.searches.past_searches("anna", limit=10)) == ([], [])
    assert len(catalog.searches.saved_searches("ben")) == len(catalog.searches.past_searches("ben", limit=10)) == 1
