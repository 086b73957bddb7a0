"""Labels of whole lens indexes in memory: what a chunk is among the values is then known without asking the index.

A label of a chunk never changes: its id stands for its text, and no two ways to read values share a field. So a table
is read once, in the background, and knows all chunks but those that came later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from app.errors import NotFoundError, UnavailableError
from app.search.value_labels import ValueLabels

_log = logging.getLogger(__name__)

MOST_BYTES = 64_000_000  # of all tables: a million chunks under a lens of 24 values, 100,000 under one of 200
RENEW_AFTER = 5_000  # chunks that were asked for and are not in a table
LOOK_AGAIN_S = 60.0  # at what was too large, or could not be read
_ID_CHARACTERS = 36

Place = tuple[str, str]  # index and field


class LabelSource(Protocol):
    def count(self, index: str) -> int: ...

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]: ...


@dataclass(frozen=True, slots=True)
class LabelTable:
    """`keys`: (n, 2) halves of ids, ascending by the first; `labels` in their order."""

    keys: np.ndarray
    labels: ValueLabels

    @property
    def byte_count(self) -> int:
        return self.keys.nbytes + self.labels.numbers.nbytes + self.labels.probabilities.nbytes

    def rows_of(self, ids: Sequence[str]) -> np.ndarray:
        """(n,): of each id its row, -1 where it has none."""
        asked = _keys_of(ids)
        if asked is None or not len(self.keys):
            return np.full(len(ids), -1)
        rows = np.minimum(np.searchsorted(self.keys[:, 0], asked[:, 0]), len(self.keys) - 1)
        return np.where((self.keys[rows] == asked).all(axis=1), rows, -1)


class LabelTables:
    """Safe to use from several threads. Tables that were not asked for lately make room for others."""

    def __init__(
        self,
        index: LabelSource,
        *,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._most_bytes = most_bytes
        self._clock = clock
        self._tables: OrderedDict[Place, LabelTable] = OrderedDict()
        self._missed: dict[Place, int] = {}
        self._not_before: dict[Place, float] = {}
        self._reading: set[Place] = set()
        self._lock = threading.Lock()

    def get(self, index: str, field: str, value_count: int) -> LabelTable | None:
        """None until it has been read, which begins with the first call."""
        place = (index, field)
        with self._lock:
            table = self._tables.get(place)
            if table is not None:
                self._tables.move_to_end(place)
            is_good = table is not None and self._missed.get(place, 0) < RENEW_AFTER
            if not is_good and place not in self._reading and self._clock() >= self._not_before.get(place, 0.0):
                self._reading.add(place)
                threading.Thread(target=self._read, args=(place, value_count), name="labels", daemon=True).start()
        return table

    def note_missed(self, index: str, field: str, count: int) -> None:
        with self._lock:
            self._missed[index, field] = self._missed.get((index, field), 0) + count

    def _read(self, place: Place, value_count: int) -> None:
        try:
            table = self._read_table(*place, value_count)
        except (NotFoundError, UnavailableError) as error:
            _log.info("Labels are asked for one by one: %s", error)
            table = None
        with self._lock:
            self._reading.discard(place)
            self._missed.pop(place, None)
            if table is None:
                self._not_before[place] = self._clock() + LOOK_AGAIN_S
                return
            self._tables[place] = table
            while sum(each.byte_count for each in self._tables.values()) > self._most_bytes:
                self._tables.popitem(last=False)

    def _read_table(self, index: str, field: str, value_count: int) -> LabelTable | None:
        """None of what is too large."""
        if self._index.count(index) * _bytes_of_chunk(value_count) > self._most_bytes:
            return None
        keys, labels = [np.empty((0, 2), np.uint64)], [ValueLabels.of_payloads([], value_count).packed()]
        for page in self._index.all_labels(index, field):
            found = _keys_of(list(page))
            if found is not None:
                keys.append(found)
                labels.append(ValueLabels.of_payloads(list(page.values()), value_count).packed())
        joined = np.concatenate(keys)
        order = np.argsort(joined[:, 0], kind="stable")
        numbers, probabilities = (np.concatenate(each)[order] for each in zip(*labels, strict=True))
        return LabelTable(joined[order], ValueLabels(numbers, probabilities))


def _bytes_of_chunk(value_count: int) -> int:
    return 16 + 1 + 2 * value_count


def _keys_of(ids: Sequence[str]) -> np.ndarray | None:
    """(n, 2) halves of UUIDs; None where some are none."""
    if any(len(each) != _ID_CHARACTERS for each in ids):
        return None
    try:
        raw = bytes.fromhex("".join(ids).replace("-", ""))
    except ValueError:
        return None
    return np.frombuffer(raw, dtype=">u8").reshape(-1, 2).astype(np.uint64) if len(raw) == 16 * len(ids) else None
