"""Throttles login attempts. Each is counted before the check, so that concurrent attempts cannot exceed a limit; a
success is uncounted. Counts are in the catalog, which all processes share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app.access.hashing import digest
from app.errors import ThrottledError
from app.types.access import AttemptCount
from app.types.documents import utc_now
from embedder.server.networks import network_of

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlAccess

WINDOW = timedelta(minutes=15)
MAX_FAILURES_OF_ADDRESS = 10
# Failures for one name from any address. Beyond this limit the name is not locked, because anyone could then lock out
# others; only addresses without a recent login of that name get fewer attempts.
MAX_FAILURES_OF_NAME = 30
MAX_FAILURES_OF_UNKNOWN_ADDRESS = 3
_STRIPES = 64


class Throttle:
    """Counts failed attempts, and rejects further ones. `kind` separates the counts of logins, keys and passwords."""

    def __init__(self, kind: str, ledger: SqlAccess, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._kind = kind
        self._ledger = ledger
        self._clock = clock
        # Attempts from one address run one after another; otherwise a burst of correct ones would count as failures.
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    @contextmanager
    def attempt(
        self, address: str, *, name: str | None = None, is_known: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Counts a failure, unless the block ends without an error. Raises ThrottledError before the block after too
        many failures. `address`: of the client; or the name of a user, to count by users. Once the name has many
        failures, `is_known` decides whether this address is known for it.
        """
        of_address = self._counter(address)
        of_name = None if name is None else f"{self._kind}-name:{digest(name)}"
        counters = [of_address, *([of_name] if of_name else [])]
        with self._locks[hash(of_address) % _STRIPES]:
            now = self._clock()
            since = now - WINDOW
            before = self._ledger.attempts(
                counters, since=since, until=now + WINDOW
            )  # a rejected attempt costs no write
            limit = MAX_FAILURES_OF_ADDRESS
            if of_name and _failures(before, of_name) >= MAX_FAILURES_OF_NAME and not is_known():
                limit = MAX_FAILURES_OF_UNKNOWN_ADDRESS
            self._require_room(before, of_address, limit - 1)
            self._require_room(self._ledger.begin_attempt(counters, at=now, since=since), of_address, limit)
            yield
            self._ledger.forgive_attempt(counters)

    def require_room(self, address: str) -> None:
        """Counts nothing. Raises ThrottledError."""
        counter = self._counter(address)
        now = self._clock()
        counts = self._ledger.attempts([counter], since=now - WINDOW, until=now + WINDOW)
        self._require_room(counts, counter, MAX_FAILURES_OF_ADDRESS - 1)

    def _counter(self, address: str) -> str:
        return f"{self._kind}:{network_of(address) or digest(address)}"

    def _require_room(self, counts: Mapping[str, AttemptCount], counter: str, most: int) -> None:
        if _failures(counts, counter) > most:
            left_s = max(1, int((counts[counter].began_at + WINDOW - self._clock()).total_seconds()))
            raise ThrottledError(
                f"Too many failed attempts. Wait {-(-left_s // 60)} minutes, then try again.", retry_after_s=left_s
            )


def _failures(counts: Mapping[str, AttemptCount], counter: str) -> int:
    return counts[counter].failures if counter in counts else 0
