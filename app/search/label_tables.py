"""Caches the labels of whole lens indexes in memory, to look up a chunk's value without a request to the index.

A label never changes: the chunk's id is derived from its text, and each way to classify values has its own field. So a
table is loaded once, in the background, and lacks only chunks that were added later.
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

MOST_BYTES = 64_000_000  # for all tables: a million chunks with a lens of 24 values, or 100,000 with one of 200
RENEW_AFTER = 5_000  # looked-up chunks missing from a table, before it is loaded again
LOOK_AGAIN_S = 60.0  # delay before another attempt, if a table was too large or could not be loaded
_ID_CHARACTERS = 36

TableKey = tuple[str, str]  # index, field


class LabelSource(Protocol):
    def count(self, index: str) -> int: ...

    def all_labels(self, index: str, field: str) -> Iterator[Mapping[str, Mapping[str, object]]]: ...


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of all chunks in a lens index. `keys`: (n, 2) uint64, the two halves of each id, sorted by the first;
    `labels` in the same order."""

    keys: np.ndarray
    labels: ValueLabels

    @property
    def byte_count(self) -> int:
        return self.keys.nbytes + self.labels.numbers.nbytes + self.labels.probabilities.nbytes

    def rows_of(self, ids: Sequence[str]) -> np.ndarray:
        """The row of each id, (n,); -1 for unknown ids."""
        wanted = _keys_of(ids)
        if wanted is None or not len(self.keys):
            return np.full(len(ids), -1)
        rows = np.minimum(np.searchsorted(self.keys[:, 0], wanted[:, 0]), len(self.keys) - 1)
        return np.where((self.keys[rows] == wanted).all(axis=1), rows, -1)


class LabelTables:
    """A cache of label tables, loaded in the background. Evicts the least recently used ones above `most_bytes`.
    Thread-safe."""

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
        self._tables: OrderedDict[TableKey, LabelTable] = OrderedDict()
        self._missed: dict[TableKey, int] = {}
        self._not_before: dict[TableKey, float] = {}
        self._loading: set[TableKey] = set()
        self._lock = threading.Lock()

    def get(self, index: str, field: str, value_count: int) -> LabelTable | None:
        """Returns the table, or None until it is loaded. The first call starts loading it in the background."""
        key = (index, field)
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
            is_good = table is not None and self._missed.get(key, 0) < RENEW_AFTER
            if not is_good and key not in self._loading and self._clock() >= self._not_before.get(key, 0.0):
                self._loading.add(key)
                threading.Thread(target=self._load, args=(key, value_count), name="labels", daemon=True).start()
        return table

    def note_missed(self, index: str, field: str, count: int) -> None:
        with self._lock:
            self._missed[index, field] = self._missed.get((index, field), 0) + count

    def _load(self, key: TableKey, value_count: int) -> None:
        try:
            table = self._load_table(*key, value_count)
        except (NotFoundError, UnavailableError) as error:
            _log.info("Labels are not cached in memory; the index answers for each search: %s", error)
            table = None
        with self._lock:
            self._loading.discard(key)
            self._missed.pop(key, None)
            if table is None:
                self._not_before[key] = self._clock() + LOOK_AGAIN_S
                return
            self._tables[key] = table
            while sum(cached.byte_count for cached in self._tables.values()) > self._most_bytes:
                self._tables.popitem(last=False)

    def _load_table(self, index: str, field: str, value_count: int) -> LabelTable | None:
        """Loads all labels of the field; None if the table would exceed the memory limit."""
        if self._index.count(index) * _bytes_of_chunk(value_count) > self._most_bytes:
            return None
        keys, labels = [np.empty((0, 2), np.uint64)], [ValueLabels.of_payloads([], value_count).packed()]
        for page in self._index.all_labels(index, field):
            page_keys = _keys_of(list(page))
            if page_keys is not None:
                keys.append(page_keys)
                labels.append(ValueLabels.of_payloads(list(page.values()), value_count).packed())
        joined = np.concatenate(keys)
        order = np.argsort(joined[:, 0], kind="stable")
        numbers, probabilities = (np.concatenate(arrays)[order] for arrays in zip(*labels, strict=True))
        return LabelTable(joined[order], ValueLabels(numbers, probabilities))


def _bytes_of_chunk(value_count: int) -> int:
    return 16 + 1 + 2 * value_count


def _keys_of(ids: Sequence[str]) -> np.ndarray | None:
    """The halves of the UUIDs as (n, 2) uint64; None if an id is not a UUID."""
    if any(len(point_id) != _ID_CHARACTERS for point_id in ids):
        return None
    try:
        raw = bytes.fromhex("".join(ids).replace("-", ""))
    except ValueError:
        return None
    return np.frombuffer(raw, dtype=">u8").reshape(-1, 2).astype(np.uint64) if len(raw) == 16 * len(ids) else None
