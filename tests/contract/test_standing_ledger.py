"""What standing searches found and its deliveries, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from catalog_samples import LEASE, LIBRARY, Clock, claimed, new_chunk, new_document

from app.catalog import SqlCatalog
from app.errors import NotFoundError, StandingChangedError
from app.ports.ledger import IngestedDocument
from app.types.access import Role, User
from app.types.documents import Job
from app.types.search import Match
from app.types.standing import Channel, PreparedSearch, StandingMatch, StandingSearch, Strength, Told, Watch

HOOK = Watch(Strength.STRONG, webhook="https://example.org/hook")


@pytest.fixture
def watched(catalog: SqlCatalog) -> Callable[..., StandingSearch]:
    def watch(name: str = "cards", watch: Watch = HOOK, owner: str = "anna") -> StandingSearch:
        saved = catalog.searches.save_search(owner, name, {"query": name, "collection": "library"})
        return catalog.standing.watch(owner, saved.id, watch)

    return watch


@pytest.fixture
def completed(catalog: SqlCatalog) -> Callable[..., str]:
    """A document with chunks, all of which these searches find; its id."""

    def complete(*searches: StandingSearch, uri: str = "a.txt", chunks: int = 2, version: int | None = None) -> str:
        catalog.submit("library", new_document(uri))
        job = claimed(catalog)
        version = catalog.standing.version("library") if version is None else version
        parts = [new_chunk(job.document_id, ordinal) for ordinal in range(chunks)]
        found = [
            StandingMatch(each.id, part.id, job.document_id, 0.5, Match.FAIR) for each in searches for part in parts
        ]
        assert catalog.complete_many({job: IngestedDocument("", {}, parts)}, told=Told(version, found)) == {job.id}
        return job.document_id

    return complete


def test_matches_are_told_once_and_in_the_order_of_time(
    catalog: SqlCatalog, clock: Clock, watched: Callable[..., StandingSearch], completed: Callable[..., str]
) -> None:
    search, other = watched(), watched("bills", owner="ben")
    first = completed(search)
    clock.advance(timedelta(minutes=1))
    second = completed(search, other, uri="b.txt", chunks=1)
    assert [each.document_id for each in catalog.standing.matches("anna", search.id)] == [second, first, first]
    assert catalog.standing.get("anna", search.id).unseen == 3
    [newest, *_] = catalog.standing.matches("anna", search.id)
    assert catalog.standing.mark_seen("anna", search.id, [newest.chunk_id, "unknown"]) == 1
    assert len(catalog.standing.matches("anna", search.id, unseen_only=True)) == 2
    assert catalog.standing.mark_seen("anna", search.id) == 2
    for refused in (
        catalog.standing.matches,
        catalog.standing.mark_seen,
        catalog.standing.unwatch,
        catalog.standing.renew_feed,
        catalog.standing.get,
    ):
        with pytest.raises(NotFoundError):
            refused("ben", search.id)
    assert [each.unseen for each in catalog.standing.of_owner("ben")] == [1]


def test_chunks_that_are_gone_are_told_no_more(
    catalog: SqlCatalog, watched: Callable[..., StandingSearch], completed: Callable[..., str]
) -> None:
    search = watched()
    completed(search, chunks=3)
    catalog.submit("library", new_document("a.txt", content="b"))
    job = claimed(catalog)
    kept = [new_chunk(job.document_id, 0)]
    told = Told(catalog.standing.version("library"))
    catalog.complete_many({job: IngestedDocument("", {}, kept)}, told=told)
    assert [each.chunk_id for each in catalog.standing.matches("anna", search.id)] == [kept[0].id]


def test_a_completion_that_asked_other_searches_changes_nothing(
    catalog: SqlCatalog, watched: Callable[..., StandingSearch], submitted: Callable[..., Job]
) -> None:
    submitted()
    job, version = claimed(catalog), catalog.standing.version("library")
    search = watched()
    done = {job: IngestedDocument("", {}, [new_chunk(job.document_id)])}
    with pytest.raises(StandingChangedError):
        catalog.complete_many(done, told=Told(version))
    assert catalog.chunks(job.document_id) == []
    catalog.searches.delete_saved_search("anna", search.id)
    with pytest.raises(StandingChangedError):
        catalog.complete_many(done, told=Told(version + 1))
    assert catalog.complete_many(done, told=Told(catalog.standing.version("library"))) == {job.id}


def test_prepared_vectors_are_kept(catalog: SqlCatalog, watched: Callable[..., StandingSearch]) -> None:
    search = watched()
    prepared = PreparedSearch(
        search.id, "anna", search.request, Strength.STRONG, "s" * 64, [0.5, -0.25], 0.25, 0.125, 7, None
    )
    _, [new] = catalog.standing.in_collection("library")
    assert catalog.standing.prepare([(new, prepared)]) == {search.id: prepared}
    assert catalog.standing.in_collection("library") == (1, [prepared])
    late = replace(prepared, median=0.75, points=8)
    assert catalog.standing.prepare([(new, late)]) == {search.id: prepared}  # another worker was first
    assert catalog.standing.prepare([(prepared, late)]) == {search.id: late}
    catalog.standing.prepare([(late, prepared)])
    assert catalog.standing.watch("anna", search.id, HOOK).since == search.since
    assert catalog.standing.in_collection("library") == (2, [replace(prepared, space="")])
    catalog.create_collection(replace(LIBRARY, name="other", active_index="other--1"))
    catalog.searches.save_search("anna", "cards", {"query": "cards", "collection": "other"})
    assert (catalog.standing.in_collection("library")[1], len(catalog.standing.in_collection("other")[1])) == ([], 1)


def test_a_feed_opens_by_its_newest_address(catalog: SqlCatalog, watched: Callable[..., StandingSearch]) -> None:
    search = watched()
    assert catalog.standing.of_feed(search.feed_token).id == search.id
    renewed = catalog.standing.renew_feed("anna", search.id)
    assert catalog.standing.of_feed(renewed.feed_token).id == search.id
    with pytest.raises(NotFoundError):
        catalog.standing.of_feed(search.feed_token)


def test_each_match_is_in_one_delivery_of_its_channel(
    catalog: SqlCatalog, clock: Clock, watched: Callable[..., StandingSearch], completed: Callable[..., str]
) -> None:
    search = watched(watch=Watch(webhook="https://example.org/hook"))
    completed(search)
    threads = [threading.Thread(target=catalog.deliveries.form) for _ in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    delivery = catalog.deliveries.claim(lease=LEASE)
    assert delivery is not None
    assert catalog.deliveries.claim(lease=LEASE) is None
    found = catalog.deliveries.delivered(delivery)
    assert found is not None
    assert (found[0].id, len(found[1])) == (search.id, 2)
    clock.advance(LEASE)  # its sender was killed
    again = catalog.deliveries.claim(lease=LEASE)
    assert again is not None
    assert (again.id, again.attempts, again.fencing_token) == (delivery.id, 2, 2)
    catalog.deliveries.put_off(delivery, "late", retry_in=timedelta(0))  # by the one that lost it
    assert catalog.deliveries.claim(lease=LEASE) is None
    catalog.deliveries.put_off(again, "It answers 503.", retry_in=timedelta(seconds=30))
    assert catalog.deliveries.failures([search.id]) == {search.id: {Channel.WEBHOOK: "It answers 503."}}
    clock.advance(timedelta(seconds=30))
    third = catalog.deliveries.claim(lease=LEASE)
    assert third is not None
    catalog.deliveries.finish(third)
    clock.advance(timedelta(days=1))
    assert (catalog.deliveries.form(), catalog.deliveries.claim(lease=LEASE)) == (0, None)
    assert catalog.deliveries.failures([search.id]) == {search.id: {}}


def test_a_clock_that_was_ahead_delays_no_delivery(
    catalog: SqlCatalog, clock: Clock, watched: Callable[..., StandingSearch], completed: Callable[..., str]
) -> None:
    search = watched(watch=Watch(webhook="https://example.org/hook"))
    completed(search)
    clock.advance(timedelta(days=365))
    catalog.deliveries.form()
    claimed = catalog.deliveries.claim(lease=LEASE)
    assert claimed is not None
    catalog.deliveries.put_off(claimed, "It answers 503.", retry_in=timedelta(seconds=30))
    clock.advance(timedelta(days=-365))
    again = catalog.deliveries.claim(lease=LEASE)
    assert again is not None
    assert again.id == claimed.id
    clock.advance(timedelta(hours=-1))  # a small step back delays it by no more than that
    assert catalog.deliveries.claim(lease=LEASE) is None
    clock.advance(timedelta(hours=1) + LEASE)
    assert catalog.deliveries.claim(lease=LEASE) is not None


def test_a_channel_that_is_new_tells_what_is_found_from_then_on(
    catalog: SqlCatalog, watched: Callable[..., StandingSearch], completed: Callable[..., str]
) -> None:
    search = watched(watch=Watch())
    completed(search)
    assert catalog.deliveries.form() == 0
    catalog.standing.watch("anna", search.id, Watch(alert="ops"))
    assert catalog.deliveries.form() == 0
    completed(search, uri="b.txt", chunks=1)
    assert catalog.deliveries.form() == 1
    delivery = catalog.deliveries.claim(lease=LEASE)
    assert delivery is not None
    found = catalog.deliveries.delivered(delivery)
    assert found is not None
    assert (delivery.channel, len(found[1])) == (Channel.ALERT, 1)


def test_what_a_person_watched_goes_with_them(
    catalog: SqlCatalog, clock: Clock, watched: Callable[..., StandingSearch], completed: Callable[..., str]
) -> None:
    catalog.access.add_user(User("anna", Role.READER, clock.now))
    search = watched()
    document = completed(search)
    catalog.deliveries.form()
    catalog.access.delete_user("anna")
    assert catalog.standing.in_collection("library")[1] == []
    assert catalog.deliveries.claim(lease=LEASE) is None
    other = watched(owner="ben")
    completed(other, uri="b.txt")
    _ = document
    catalog.delete_collection("library")
    assert catalog.standing.of_owner("ben") == []
