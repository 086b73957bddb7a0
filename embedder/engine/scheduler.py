"""The queue of one model: bounded, with priority classes. A text that several requests want is computed once.

Thread-safe. Independent of the model and of HTTP.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from embedder.engine.errors import NotServingError, OverloadedError
from embedder.engine.latency import LatencyEstimator
from embedder.engine.limits import Limits
from embedder.engine.work import Item, Key, Priority

# Minimum batch, however long it takes: on a slow machine, smaller batches cost more per text and hardly speed up
# queries.
_LEAST_DOCUMENTS = 16
_LEAST_SHARE = 8  # minimum when the last documents are split among the threads
_QUIET_S = 10.0  # this long after the last query, batches of documents grow to their maximum
_QUERY_BATCHES = 8  # after this many, one batch of documents runs, so that ingestion progresses
_GROWTH = 1.02  # per batch, to recover after batches shrank: another program may have held the memory for a while
_LONE_FACTOR = 1.8  # a query may always take this many times its time alone
# Fairness: each text of a request delays the request's documents by this much, as if it had arrived later. A book that
# submits batch after batch does not hold up a note, and nothing waits for ever.
_TURN_S_PER_TEXT = 0.05


@dataclass(slots=True)
class _Queue:
    items: dict[Item, None] = field(default_factory=dict)  # in order of arrival
    tokens: int = 0
    cost: int = 0
    latency: LatencyEstimator = field(default_factory=LatencyEstimator)

    def add(self, item: Item) -> None:
        self.items[item] = None
        self.tokens += item.tokens
        self.cost += item.cost

    def remove(self, item: Item) -> None:
        del self.items[item]
        self.tokens -= item.tokens
        self.cost -= item.cost

    @property
    def seconds(self) -> float:
        """Seconds until the model has computed this queue."""
        return self.latency.seconds_for(self.cost) if self.items else 0.0


class Scheduler:
    """Orders texts into batches. `streams`: number of document batches computed in parallel."""

    def __init__(self, limits: Limits, *, streams: int = 1) -> None:
        self._limits = limits
        self._streams = streams
        self._lock = threading.RLock()
        self._queues = {priority: _Queue() for priority in Priority}
        self._in_flight: dict[Key, Item] = {}  # waiting or being computed
        self._busy: dict[int, tuple[Priority, float]] = {}  # thread -> class of its batch, and expected end
        self._last_query_at = -math.inf
        self._query_batches = 0  # since the last batch of documents
        self._closed: str | None = None
        self._batch_tokens = float(limits.batch_tokens)

    def submit(self, wanted: Sequence[Item], *, may_refuse: bool = True) -> list[Item]:
        """Queues the items and returns the items to wait for, in order; an equal item in flight replaces its copy.

        All or nothing: raises NotServingError, or OverloadedError if `may_refuse`, and then queues none of `wanted`.
        """
        with self._lock:
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
            added = [*new.values(), *alone]
            if may_refuse:
                self._check_room(added)
            if any(item.priority is Priority.QUERY for item in wanted):
                self._last_query_at = time.monotonic()
            for item in added:
                item.turn = item.asked_at + _TURN_S_PER_TEXT * len(added)
                self._insert(item)
            for item, other in zip(chosen, wanted, strict=True):
                item.waiting += 1
                item.deadline = max(item.deadline, other.deadline)
                self._promote(item, other.priority)
            return chosen

    def check_room_for(self, count: int, priority: Priority) -> None:
        """Checks the queue before the texts are tokenised. Raises OverloadedError if `submit` would refuse them too."""
        with self._lock:
            self._check_open()
            self._check_count(priority, count)

    def leave(self, items: Sequence[Item]) -> None:
        """One request stops waiting for these; items that nobody waits for are not computed."""
        with self._lock:
            for item in items:
                item.waiting -= 1
                if item.waiting <= 0:
                    self._remove(item)

    def take(self, *, documents_only: bool = False) -> tuple[list[Item], list[Item]]:
        """The next batch, and the items past their deadline; both empty if nothing waits."""
        with self._lock:
            now = time.monotonic()
            late = [item for queue in self._queues.values() for item in queue.items if item.deadline < now]
            for item in late:
                self._remove(item)
            if not (self._queues[Priority.DOCUMENT].items if documents_only else self.has_waiting):
                return [], late
            batch = self._next_batch(documents_only=documents_only)
            for item in batch:
                self._remove(item, is_computed=True)
                item.taken_at = now
            priority, cost = batch[0].priority, sum(item.cost for item in batch)
            self._busy[threading.get_ident()] = priority, now + self._queues[priority].latency.seconds_for(cost)
            return batch, late

    @contextmanager
    def interruption(self) -> Iterator[tuple[list[Item], list[Item]]]:
        """Like `take`, but for use while a batch of documents is being computed: yields only more urgent items.

        Yields nothing more after _QUERY_BATCHES batches of queries, until the documents are done.
        """
        with self._lock:
            documents = self._busy.get(threading.get_ident())
            are_queries_due = self._query_batches < _QUERY_BATCHES and self.depth(Priority.QUERY) > 0
            is_urgent = are_queries_due or self.depth(Priority.PROBE) > 0
            taken = self.take() if is_urgent else ([], [])
        yield taken
        with self._lock:
            if documents is not None:
                self._busy[threading.get_ident()] = documents

    def note_computed(self) -> None:
        """Marks the thread's batch as computed. Call it before resolving the answers: a client may send its next
        request at once and should find the model free."""
        with self._lock:
            self._busy.pop(threading.get_ident(), None)

    def note_done(self, batch: Sequence[Item], seconds: float) -> None:
        with self._lock:
            self._busy.pop(threading.get_ident(), None)
            self._batch_tokens = min(self._batch_tokens * _GROWTH, float(self._limits.batch_tokens))
            self._queues[batch[0].priority].latency.learn(sum(item.cost for item in batch), seconds)
            for item in batch:
                if self._in_flight.get(item.key) is item:
                    del self._in_flight[item.key]

    def shrink_batches(self) -> None:
        """Call after the device ran out of memory; the next batches are smaller."""
        with self._lock:
            self._batch_tokens = max(self._batch_tokens / 2, 1.0)

    def close(self, reason: str) -> None:
        """Accepts no new items; waiting ones are still computed."""
        with self._lock:
            self._closed = self._closed or reason

    def drop(self, items: Sequence[Item]) -> list[Item]:
        """Removes and returns the items that still wait."""
        with self._lock:
            waiting = [item for item in items if item in self._queues[item.priority].items]
            for item in waiting:
                self._remove(item)
            return waiting

    def drop_all(self, reason: str) -> list[Item]:
        """Closes, removes all waiting items and returns them."""
        with self._lock:
            self.close(reason)
            return self.drop([item for queue in self._queues.values() for item in queue.items])

    @property
    def closed(self) -> str | None:
        return self._closed

    @property
    def has_waiting(self) -> bool:
        return any(queue.items for queue in self._queues.values())

    def depth(self, priority: Priority) -> int:
        return len(self._queues[priority].items)

    def tokens(self, priority: Priority) -> int:
        return self._queues[priority].tokens

    def age_s(self, priority: Priority) -> float:
        """Wait of the oldest item, in seconds."""
        with self._lock:
            oldest = next(iter(self._queues[priority].items), None)
            return 0.0 if oldest is None else time.monotonic() - oldest.asked_at

    def _known(self, key: Key) -> Item | None:
        known = self._in_flight.get(key)
        has_failed = known is not None and known.answer.done() and known.answer.exception() is not None
        return None if has_failed else known

    def _check_open(self) -> None:
        if self._closed is not None:
            raise NotServingError(self._closed, retry_after_s=5)

    def _check_room(self, new: Sequence[Item]) -> None:
        for priority in (Priority.QUERY, Priority.DOCUMENT):
            items = [item for item in new if item.priority is priority]
            if items:
                self._check_count(priority, len(items))
                self._check_tokens(priority, sum(item.tokens for item in items))
                self._check_wait(priority, cost=sum(item.cost for item in items))

    def _check_count(self, priority: Priority, count: int) -> None:
        most = self._limits.query_inputs if priority is Priority.QUERY else self._limits.document_inputs
        waiting = self.depth(priority)
        if waiting and waiting + count > most:
            raise OverloadedError(
                f"The {priority} queue has {waiting} texts; {count} more would exceed {most}. Retry later.",
                retry_after_s=_whole_seconds(self._seconds_before(priority) / 2),
            )

    def _check_tokens(self, priority: Priority, tokens: int) -> None:
        waiting, most = self.tokens(priority), self._limits.document_tokens
        if priority is Priority.DOCUMENT and waiting and waiting + tokens > most:
            raise OverloadedError(
                f"The document queue has {waiting} tokens; {tokens} more would exceed {most}. Retry later.",
                retry_after_s=_whole_seconds(self._seconds_before(priority) / 2),
            )

    def _check_wait(self, priority: Priority, *, cost: int) -> None:
        """Raises OverloadedError if the expected wait is too long. Never refuses while the model is idle."""
        before_s = self._seconds_before(priority)
        if not self._busy and not self.has_waiting:
            return
        queue = self._queues[priority]
        if priority is Priority.QUERY:
            # A running batch of documents does not mean that there are too many queries.
            has_documents = any(busy is Priority.DOCUMENT for busy, _ in self._busy.values())
            busy_s = 0.0 if has_documents else self._busy_s()
            expected_s = busy_s + queue.latency.seconds_for(queue.cost + cost)
            most_s = max(self._limits.query_wait_s, _LONE_FACTOR * queue.latency.seconds_for(cost))
        else:
            expected_s, most_s = before_s, self._limits.document_wait_s
        if expected_s > most_s:
            raise OverloadedError(
                f"The expected wait is {expected_s:.2f} s; the limit for a {priority} is {most_s:.2f} s. Retry later.",
                retry_after_s=_whole_seconds(expected_s - most_s),
            )

    def _busy_s(self) -> float:
        """Seconds until the first thread should be free."""
        now = time.monotonic()
        # An overdue batch may take as long again as it is late.
        return min((abs(until - now) for _, until in self._busy.values()), default=0.0)

    def _seconds_before(self, priority: Priority) -> float:
        """Seconds until the model reaches a new text of this class."""
        seconds = self._busy_s() + self._queues[Priority.QUERY].seconds
        if priority is Priority.QUERY:
            return seconds
        return seconds + self._queues[Priority.DOCUMENT].seconds / self._streams

    def _insert(self, item: Item) -> None:
        self._queues[item.priority].add(item)
        if item.is_shared:
            self._in_flight[item.key] = item

    def _remove(self, item: Item, *, is_computed: bool = False) -> None:
        queue = self._queues[item.priority]
        if item in queue.items:
            queue.remove(item)
            if not is_computed and self._in_flight.get(item.key) is item:
                del self._in_flight[item.key]

    def _promote(self, item: Item, priority: Priority) -> None:
        """Moves a document to the query queue if a query now waits for it."""
        queue = self._queues[item.priority]
        if priority is Priority.QUERY and item.priority is Priority.DOCUMENT and item in queue.items:
            queue.remove(item)
            item.priority = priority
            self._queues[priority].add(item)

    def _next_batch(self, *, documents_only: bool) -> list[Item]:
        priority = next(each for each in Priority if self._queues[each].items)
        are_documents_due = self._query_batches >= _QUERY_BATCHES and self._queues[Priority.DOCUMENT].items
        if documents_only or (priority is Priority.QUERY and are_documents_due):
            priority = Priority.DOCUMENT
        self._query_batches = 0 if priority is Priority.DOCUMENT else self._query_batches + 1
        queue = self._queues[priority]
        if priority is not Priority.DOCUMENT:
            return self._within_budget(self._fitting(queue, next(iter(queue.items))), math.inf)
        head = min(queue.items, key=lambda item: item.turn)
        is_quiet = time.monotonic() - self._last_query_at > _QUIET_S
        most_cost = math.inf if is_quiet else queue.latency.cost_within(self._limits.batch_s)
        return self._within_budget(self._fitting(queue, head), most_cost)

    def _fitting(self, queue: _Queue, head: Item) -> list[Item]:
        """Selects items for a batch; the head comes first.

        The others take no more steps than the head, so that they delay no answer: z_k is a prefix. Items of 0 steps
        stay apart, because the base model computes them. Documents in a batch have similar lengths, to reduce padding;
        queries keep their order of arrival.
        """
        is_document = head.priority is Priority.DOCUMENT
        fitting = (item for item in queue.items if item is head or _fits(item.key, head.key))
        share = max(_LEAST_SHARE, math.ceil(len(queue.items) / self._streams)) if is_document else len(queue.items)
        return heapq.nsmallest(
            min(self._limits.batch_texts, share),
            fitting,
            key=lambda item: (item is not head, is_document and abs(item.tokens - head.tokens)),
        )

    def _within_budget(self, items: Sequence[Item], most_cost: float) -> list[Item]:
        batch: list[Item] = []
        widest = cost = 0
        for item in items:
            widest, cost = max(widest, item.tokens), cost + item.cost
            is_slow = cost > most_cost and len(batch) >= _LEAST_DOCUMENTS
            is_over = is_slow or widest * (len(batch) + 1) > self._batch_tokens
            if batch and is_over:
                break
            batch.append(item)
        return batch


def _fits(key: Key, head: Key) -> bool:
    return key.options == head.options and key.steps <= head.steps and bool(key.steps) == bool(head.steps)


def _whole_seconds(seconds: float) -> float:
    return max(1.0, math.ceil(seconds))
