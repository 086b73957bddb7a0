"""An LRU cache of bounded size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LRUCache(Generic[Key, Value]):
    """A cache of at most `size` values, which evicts the least recently used one. Thread-safe; two threads may compute
    the same value at the same time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def keep(self, values: Mapping[Key, Value]) -> None:
        with self._lock:
            for key, value in values.items():
                self._values[key] = value
                self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def get_or_compute(self, key: Key, compute: Callable[[], Value]) -> Value:
        found = self.get(key)
        if found is None:
            found = compute()
            self.keep({key: found})
        return found
