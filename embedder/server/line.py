"""Where texts wait for the model: bounded, in lanes, each text once however many ask for it.

Safe to use from several threads. Knows neither the model nor HTTP.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Sequence

from embedder.server.errors import NotServingError, OverloadedError
from embedder.server.limits import Limits
from embedder.server.pace import Pace
from embedder.server.work import Item, Key, Lane

_QUERY_BATCHES = 8  # after so many a batch of documents has its turn, so that ingestion never stands still
_GROWTH = 1.02  # per batch, after batches had to shrink: other programs may have taken the memory for a while
_LONE_FACTOR = 1.8  # a query may always take as many times what it takes alone


class Line:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._lanes: dict[Lane, dict[Item, None]] = {lane: {} for lane in Lane}  # each in the order of arrival
        self._tokens = dict.fromkeys(Lane, 0)
        self._costs = dict.fromkeys(Lane, 0)
        self._under_way: dict[Key, Item] = {}  # waiting or being computed
        self._paces = {lane: Pace() for lane in Lane}
        self._busy_until: float | None = None  # as expected; None while nothing is computed
        self._busy_lane = Lane.PROBE
        self._query_batches = 0  # since the last one of documents
        self._closed: str | None = None
        self._batch_tokens = float(limits.batch_tokens)

    def enter(self, wanted: Sequence[Item]) -> list[Item]:
        """Those who will bring the answers, in order: where the same is under way already, that.

        All or none: raises OverloadedError or NotServingError, and then nothing of `wanted` waits.
        """
        with self._changed:
            self._check_open()
            chosen: list[Item] = []
            new: dict[Key, Item] = {}
            alone: list[Item] = []
            for item in wanted:
                known = (self._known(item.key) or new.get(item.key)) if item.is_shared else None
                if known is None and item.is_shared:
                    new[item.key] = item
                elif known is None:
                    alone.append(item)
                chosen.append(known or item)
            self._check_room([*new.values(), *alone])
            for item in [*new.values(), *alone]:
                self._insert(item)
            for item, other in zip(chosen, wanted, strict=True):
                item.waiting += 1
                item.deadline = max(item.deadline, other.deadline)
                self._hasten(item, other.lane)
            self._changed.notify_all()
            return chosen

    def check_room_for(self, count: int, lane: Lane) -> None:
        """Before the texts are tokenised. Raises OverloadedError where they would be refused after it, too."""
        with self._changed:
            self._check_open()
            self._check_count(lane, count)

    def leave(self, items: Sequence[Item]) -> None:
        """A request does not wait for these any more; what nobody waits for is not computed."""
        with self._changed:
            for item in items:
                item.waiting -= 1
                if item.waiting <= 0:
                    self._remove(item)

    def take(self) -> tuple[list[Item], list[Item]]:
        """Waits for the next batch, and for those that waited too long. Two empty lists: closed, and all is done."""
        with self._changed:
            while not any(self._lanes.values()):
                if self._closed is not None:
                    return [], []
                self._changed.wait()
            now = time.monotonic()
            late = [item for lane in self._lanes.values() for item in lane if item.deadline < now]
            for item in late:
                self._remove(item)
            if not any(self._lanes.values()):
                return [], late
            batch = self._next_batch()
            for item in batch:
                self._remove(item, is_under_way=True)
                item.taken_at = now
            cost = sum(item.cost for item in batch)
            self._busy_lane = batch[0].lane
            self._busy_until = now + self._paces[batch[0].lane].seconds_for(cost)
            return batch, late

    def note_computed(self) -> None:
        """Before the answers are given: whoever has one may come again at once, and is no second in the line."""
        with self._changed:
            self._busy_until = None

    def note_done(self, batch: Sequence[Item], seconds: float) -> None:
        with self._changed:
            self._busy_until = None
            self._batch_tokens = min(self._batch_tokens * _GROWTH, float(self._limits.batch_tokens))
            self._paces[batch[0].lane].learn(sum(item.cost for item in batch), seconds)
            for item in batch:
                if self._under_way.get(item.key) is item:
                    del self._under_way[item.key]

    def shrink_batches(self) -> None:
        """The device had no memory for the last one."""
        with self._changed:
            self._batch_tokens = max(self._batch_tokens / 2, 1.0)

    def close(self, reason: str) -> None:
        """Lets nobody in any more; those who wait are served."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()

    def drop(self, items: Sequence[Item]) -> list[Item]:
        """Takes out those of them that wait yet, and gives them back."""
        with self._changed:
            waiting = [item for item in items if item in self._lanes[item.lane]]
            for item in waiting:
                self._remove(item)
            return waiting

    def drop_all(self, reason: str) -> list[Item]:
        """Closes, and takes out whoever waits."""
        self.close(reason)
        with self._changed:
            dropped = [item for lane in self._lanes.values() for item in lane]
            for item in dropped:
                self._remove(item)
            return dropped

    @property
    def closed(self) -> str | None:
        return self._closed

    def depth(self, lane: Lane) -> int:
        return len(self._lanes[lane])

    def tokens(self, lane: Lane) -> int:
        return self._tokens[lane]

    def age_s(self, lane: Lane) -> float:
        """How long the one that came first waits."""
        with self._changed:
            oldest = next(iter(self._lanes[lane]), None)
            return 0.0 if oldest is None else time.monotonic() - oldest.asked_at

    def _known(self, key: Key) -> Item | None:
        known = self._under_way.get(key)
        has_failed = known is not None and known.answer.done() and known.answer.exception() is not None
        return None if has_failed else known

    def _check_open(self) -> None:
        if self._closed is not None:
            raise NotServingError(self._closed, retry_after_s=5)

    def _check_room(self, new: Sequence[Item]) -> None:
        for lane in (Lane.QUERY, Lane.DOCUMENT):
            items = [item for item in new if item.lane is lane]
            if items:
                self._check_count(lane, len(items))
                tokens = sum(item.tokens for item in items)
                most = self._limits.document_tokens
                if lane is Lane.DOCUMENT and self._lanes[lane] and self._tokens[lane] + tokens > most:
                    raise OverloadedError(
                        f"{self._tokens[lane]} tokens of documents wait, and {tokens} more would be over {most}. "
                        "Come back later.",
                        retry_after_s=self._retry_after_s(self._seconds_before(lane) / 2),
                    )
                self._check_wait(lane, cost=sum(item.cost for item in items))

    def _check_count(self, lane: Lane, count: int) -> None:
        most = self._limits.query_inputs if lane is Lane.QUERY else self._limits.document_inputs
        waiting = len(self._lanes[lane])
        if waiting and waiting + count > most:
            raise OverloadedError(
                f"{waiting} texts wait in the lane {lane}, and {count} more would be over {most}. Come back later.",
                retry_after_s=self._retry_after_s(self._seconds_before(lane) / 2),
            )

    def _check_wait(self, lane: Lane, *, cost: int) -> None:
        """Raises where the answer would come too late. Whoever finds the model free is never refused."""
        before_s = self._seconds_before(lane)
        if self._busy_until is None and not any(self._lanes.values()):
            return
        own_s = self._paces[lane].seconds_for(cost)
        if lane is Lane.QUERY:
            # A batch of documents in hand is no sign of too many queries.
            busy_s = 0.0 if self._busy_lane is Lane.DOCUMENT else self._busy_s()
            expected_s = busy_s + self._paces[lane].seconds_for(self._costs[lane] + cost)
            most_s = max(self._limits.query_wait_s, _LONE_FACTOR * own_s)
        else:
            expected_s, most_s = before_s, self._limits.document_wait_s
        if expected_s > most_s:
            raise OverloadedError(
                f"An answer would take about {expected_s:.2f} s, and at most {most_s:.2f} s are waited in the lane "
                f"{lane}. Come back later.",
                retry_after_s=self._retry_after_s(expected_s - most_s),
            )

    def _busy_s(self) -> float:
        if self._busy_until is None:
            return 0.0
        return abs(self._busy_until - time.monotonic())  # late by so much, it may well take as much again

    def _seconds_before(self, lane: Lane) -> float:
        """Until the model has done what comes before a new text of the lane."""
        queries = self._paces[Lane.QUERY].seconds_for(self._costs[Lane.QUERY]) if self._lanes[Lane.QUERY] else 0.0
        if lane is Lane.QUERY or not self._lanes[Lane.DOCUMENT]:
            return self._busy_s() + queries
        return self._busy_s() + queries + self._paces[Lane.DOCUMENT].seconds_for(self._costs[Lane.DOCUMENT])

    @staticmethod
    def _retry_after_s(seconds: float) -> float:
        return max(1.0, math.ceil(seconds))

    def _insert(self, item: Item) -> None:
        self._lanes[item.lane][item] = None
        self._tokens[item.lane] += item.tokens
        self._costs[item.lane] += item.cost
        if item.is_shared:
            self._under_way[item.key] = item

    def _remove(self, item: Item, *, is_under_way: bool = False) -> None:
        if item in self._lanes[item.lane]:
            del self._lanes[item.lane][item]
            self._tokens[item.lane] -= item.tokens
            self._costs[item.lane] -= item.cost
            if not is_under_way and self._under_way.get(item.key) is item:
                del self._under_way[item.key]

    def _hasten(self, item: Item, lane: Lane) -> None:
        """A document that now a query waits for goes with the queries."""
        if lane is Lane.QUERY and item.lane is Lane.DOCUMENT and item in self._lanes[item.lane]:
            self._remove(item, is_under_way=True)
            item.lane = lane
            self._insert(item)

    def _next_batch(self) -> list[Item]:
        lane = next(each for each in Lane if self._lanes[each])
        if lane is Lane.QUERY and self._lanes[Lane.DOCUMENT] and self._query_batches >= _QUERY_BATCHES:
            lane = Lane.DOCUMENT
        self._query_batches = 0 if lane is Lane.DOCUMENT else self._query_batches + 1
        waiting = self._lanes[lane]
        head = next(iter(waiting))
        if lane is Lane.DOCUMENT:
            fitting = self._fitting(waiting, head, nearness=lambda item: abs(item.tokens - head.tokens))
            most_cost = self._paces[lane].cost_within(self._limits.batch_s)
        else:
            fitting, most_cost = self._fitting(waiting, head, nearness=lambda _: 0), math.inf
        return self._within_budget(fitting, most_cost)

    def _fitting(self, waiting: dict[Item, None], head: Item, *, nearness: Callable[[Item], int]) -> list[Item]:
        """The head first. Others take no more steps than it, so that nobody waits for theirs: z_k is a prefix."""
        fitting = (
            item
            for item in waiting
            if item is head or (item.key.variant == head.key.variant and item.key.steps <= head.key.steps)
        )
        return heapq.nsmallest(self._limits.batch_texts, fitting, key=lambda item: (item is not head, nearness(item)))

    def _within_budget(self, items: Sequence[Item], most_cost: float) -> list[Item]:
        batch: list[Item] = []
        widest = cost = 0
        for item in items:
            widest, cost = max(widest, item.tokens), cost + item.cost
            is_over = widest * (len(batch) + 1) > self._batch_tokens or cost > most_cost
            if batch and is_over:
                break
            batch.append(item)
        return batch
