"""Answers under idempotency keys, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from catalog_samples import Clock

from app.catalog import SqlCatalog
from app.types.idempotency import IdempotencyRecord

LEASE, DAY = timedelta(minutes=5), timedelta(days=1)


def begin(catalog: SqlCatalog, key: str = "k", *, caller: str = "anna", digest: str = "d") -> IdempotencyRecord | None:
    return catalog.idempotency.begin(caller, key, digest=digest, lease=LEASE)


class TestKeptAnswers:
    def test_second_request_is_told_that_the_first_is_under_way_and_then_its_answer(self, catalog: SqlCatalog) -> None:
        assert begin(catalog) is None
        assert begin(catalog, digest="other") == IdempotencyRecord("d", None, "")
        catalog.idempotency.keep("anna", "k", status=202, body='{"a": "ä\U0001f642"}', keep=DAY)
        assert begin(catalog) == IdempotencyRecord("d", 202, '{"a": "ä\U0001f642"}')

    def test_callers_do_not_share_keys(self, catalog: SqlCatalog) -> None:
        begin(catalog)
        assert begin(catalog, caller="ben") is None
        assert begin(catalog, "K") is None

    def test_failed_request_leaves_its_key_free_and_an_answered_one_does_not(self, catalog: SqlCatalog) -> None:
        begin(catalog)
        catalog.idempotency.forget("anna", "k")
        assert begin(catalog, digest="other") is None
        catalog.idempotency.keep("anna", "k", status=201, body="{}", keep=DAY)
        catalog.idempotency.forget("anna", "k")
        assert begin(catalog) == IdempotencyRecord("other", 201, "{}")

    def test_answer_is_kept_for_a_day_and_a_lost_request_for_its_lease(self, catalog: SqlCatalog, clock: Clock) -> None:
        begin(catalog)
        begin(catalog, "lost")
        catalog.idempotency.keep("anna", "k", status=201, body="{}", keep=DAY)
        clock.now += LEASE
        assert begin(catalog, "lost") is None
        assert begin(catalog) is not None
        clock.now += DAY - LEASE - timedelta(seconds=1)
        assert begin(catalog) is not None
        clock.now += timedelta(seconds=1)
        assert begin(catalog) is None

    def test_a_clock_that_was_ahead_blocks_no_key(self, catalog: SqlCatalog, clock: Clock) -> None:
        right = clock.now
        clock.now = right + timedelta(hours=2)
        begin(catalog, "lost")
        begin(catalog, "answered")
        catalog.idempotency.keep("anna", "answered", status=201, body="{}", keep=DAY)
        clock.now = right
        assert begin(catalog, "lost") is None
        assert begin(catalog, "answered") == IdempotencyRecord("d", 201, "{}")
        clock.now = right - timedelta(days=2)
        assert begin(catalog, "answered") is None

    def test_of_many_at_once_one_begins(self, catalog: SqlCatalog) -> None:
        with ThreadPoolExecutor(8) as pool:
            began = list(pool.map(lambda _: begin(catalog), range(24)))
        assert began.count(None) == 1
        assert set(began) == {None, IdempotencyRecord("d", None, "")}
