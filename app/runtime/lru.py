"""An LRU cache of byte strings, limited by their total size. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class BytesCache(Generic[Key]):
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[Key, bytes] = OrderedDict()
        self._byte_count = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> bytes | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def keep(self, key: Key, value: bytes) -> None:
        """Caches `value`, unless it alone exceeds the limit."""
        with self._lock:
            self._byte_count += len(value) - len(self._values.pop(key, b""))
            self._values[key] = value
            while self._byte_count > self._max_bytes:
                _, oldest = self._values.popitem(last=False)
                self._byte_count -= len(oldest)
