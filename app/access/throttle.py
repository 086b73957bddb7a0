"""Throttling of attempts to come in. Each is counted before it is checked, so that many at once pass no limit; one
that succeeds is taken back. Counts are in the catalog, which many processes share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from app.access.hashing import digest
from app.errors import ThrottledError
from app.types.access import AttemptCount
from app.types.documents import utc_now

if TYPE_CHECKING:  # it brings in SQL
    from app.catalog import SqlAccess

WINDOW = timedelta(minutes=15)
MAX_FAILURES_OF_ADDRESS = 10
# Failures for one name, from anywhere. Beyond them nobody is locked out, for anybody could do that to somebody else:
# addresses from which the name has not logged in lately have fewer attempts.
MAX_FAILURES_OF_NAME = 30
MAX_FAILURES_OF_UNKNOWN_ADDRESS = 3
_STRIPES = 64


class Throttle:
    """`kind` keeps the counts of logins and of keys apart."""

    def __init__(self, kind: str, ledger: SqlAccess, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._kind = kind
        self._ledger = ledger
        self._clock = clock
        # Attempts of an address are checked one after the other: else a burst of right ones would count as failures.
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    @contextmanager
    def attempt(
        self, address: str, *, name: str | None = None, is_known: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """A failure, unless the block ends without an error. Raises ThrottledError before it, where there were too
        many. `is_known` tells whether this address is known for the name; it is asked where that has many failures."""
        of_address = f"{self._kind}:{_network_of(address)}"
        of_name = None if name is None else f"{self._kind}-name:{digest(name)}"
        counters = [of_address, *([of_name] if of_name else [])]
        with self._locks[hash(of_address) % _STRIPES]:
            since = self._clock() - WINDOW
            before = self._ledger.attempts(counters, since=since)  # who is refused costs no write
            limit = MAX_FAILURES_OF_ADDRESS
            if of_name and _failures(before, of_name) >= MAX_FAILURES_OF_NAME and not is_known():
                limit = MAX_FAILURES_OF_UNKNOWN_ADDRESS
            self._require_room(before, of_address, limit - 1)
            self._require_room(self._ledger.begin_attempt(counters, at=since + WINDOW, since=since), of_address, limit)
            yield
            self._ledger.forgive_attempt(counters)

    def require_room(self, address: str) -> None:
        """Counts nothing. Raises ThrottledError."""
        counter = f"{self._kind}:{_network_of(address)}"
        found = self._ledger.attempts([counter], since=self._clock() - WINDOW)
        self._require_room(found, counter, MAX_FAILURES_OF_ADDRESS - 1)

    def _require_room(self, found: Mapping[str, AttemptCount], counter: str, most: int) -> None:
        if _failures(found, counter) > most:
            left_s = max(1, int((found[counter].began_at + WINDOW - self._clock()).total_seconds()))
            raise ThrottledError(
                f"Too many failed attempts. Wait {-(-left_s // 60)} minutes, then try again.", retry_after_s=left_s
            )


def _failures(found: Mapping[str, AttemptCount], counter: str) -> int:
    return found[counter].failures if counter in found else 0


def _network_of(address: str) -> str:
    """What one client has: an IPv4 address, or the 2^64 addresses of an IPv6 network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return digest(address)
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)
