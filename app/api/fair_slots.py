"""Slots that many clients share fairly, with a bounded queue for them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

from embedder.lru import LRUCache

KNOWN_CLIENTS = 4_096
# Moving average over about the last 1 / weight requests. At twice the capacity 0.6 are refused, at two thirds 0.05.
_REFUSED_WEIGHT, _REFUSED_MANY = 0.05, 0.3


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """By default every request may wait, for any time."""

    at_once: int
    waiting: int = sys.maxsize
    burst: int = sys.maxsize  # limit of waiting requests while few were refused lately; otherwise `waiting`
    wait_s: float | None = None
    of_client: int | None = None  # at once, of one client; None for no limit


@dataclass(eq=False, slots=True)
class _Waiting:
    client: str
    answer: asyncio.Future[bool]  # True: it has a slot; False: it is refused

    @property
    def has_slot(self) -> bool:
        return self.answer.done() and not self.answer.cancelled() and self.answer.result()


class FairSlots:
    """Use it from one event loop only. `on_refused` is called for each refused request.

    The next slot goes to the client with the fewest requests in flight, then to the one that has waited longest since
    its last slot. In a full queue a request takes the place of the latest one of a client with more requests.
    """

    def __init__(self, limits: SlotLimits, *, on_refused: Callable[[], None] = lambda: None) -> None:
        self.limits = limits
        self._on_refused = on_refused
        self._queue: list[_Waiting] = []
        self._in_flight: Counter[str] = Counter()  # by client
        self._served: LRUCache[str, int] = LRUCache(KNOWN_CLIENTS)  # by client, the number of its last slot
        self._numbers = count(1)
        self._refused_share = 0.0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def in_flight(self) -> int:
        return self._in_flight.total()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Use a slot once there is one. For limits that refuse no request."""
        if not await self.acquire(client):
            raise RuntimeError("turn() needs limits that refuse no request; use acquire()")
        try:
            yield
        finally:
            self.release(client)

    def refuses(self, client: str = "") -> bool:
        """Whether the queue has no room for one more request of the client. If so, that request is counted as refused.

        The queue is long enough for a burst. Under lasting overload it would always be full and only add delay, so it
        is shorter once many requests were refused.
        """
        if not self._is_full(client) or self._latest_of_largest(client) is not None:
            return False
        self._note(is_refused=True)
        return True

    async def acquire(self, client: str = "") -> bool:
        """Wait for a slot, at most `wait_s`. After True call `release`; False means that the request is refused."""
        if self._is_full(client):
            latest = self._latest_of_largest(client)
            self._note(is_refused=True)  # one of the two
            if latest is None:
                return False
            self._queue.remove(latest)
            latest.answer.set_result(False)
        own = _Waiting(client, asyncio.get_running_loop().create_future())
        self._queue.append(own)
        self._hand_out()
        try:
            async with asyncio.timeout(self.limits.wait_s):
                await own.answer
        except TimeoutError:
            own.answer.cancel()
            self._note(is_refused=not own.has_slot)
        except BaseException:
            own.answer.cancel()
            if own.has_slot:
                self.release(client)
            raise
        finally:
            if own in self._queue:
                self._queue.remove(own)
        return own.has_slot

    def release(self, client: str = "") -> None:
        self._in_flight[client] -= 1
        if self._in_flight[client] <= 0:
            del self._in_flight[client]
        self._hand_out()

    def _hand_out(self) -> None:
        """Give free slots to waiting requests."""
        while self._in_flight.total() < self.limits.at_once:
            entitled = [each for each in self._waiting() if self._has_room(each.client)]
            if not entitled:
                return
            chosen = min(entitled, key=lambda each: (self._in_flight[each.client], self._served.get(each.client) or 0))
            self._queue.remove(chosen)
            self._in_flight[chosen.client] += 1
            self._served.keep({chosen.client: next(self._numbers)})
            self._note(is_refused=False)
            chosen.answer.set_result(True)

    def _waiting(self) -> list[_Waiting]:
        """Leaves out requests that are being cancelled."""
        return [each for each in self._queue if not each.answer.done()]

    def _has_room(self, client: str) -> bool:
        return self.limits.of_client is None or self._in_flight[client] < self.limits.of_client

    def _is_full(self, client: str) -> bool:
        most = self.limits.waiting if self._refused_share > _REFUSED_MANY else self.limits.burst
        has_slot = self._in_flight.total() < self.limits.at_once and self._has_room(client)
        return not has_slot and len(self._queue) >= most

    def _latest_of_largest(self, client: str) -> _Waiting | None:
        """The latest waiting request of the client with the most requests, if those are more than this client has with
        one more."""
        requests = self._in_flight + Counter(each.client for each in self._queue)
        waiting = [each for each in self._waiting() if requests[each.client] > requests[client] + 1]
        return max(reversed(waiting), key=lambda each: requests[each.client], default=None)

    def _note(self, *, is_refused: bool) -> None:
        self._refused_share += _REFUSED_WEIGHT * (is_refused - self._refused_share)
        if is_refused:
            self._on_refused()
