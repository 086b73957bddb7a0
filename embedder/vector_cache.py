"""An LRU cache of vectors, so that a repeated text costs nothing."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np

_Key = tuple[bytes, int, Hashable]

_MB = 1_000_000
_OVERHEAD_BYTES = 400  # per entry: its tuple, the headers of its bytes and of its array, its place in the table


class VectorCache:
    """Holds up to `most_mb` MB. Thread-safe.

    Each encoder has its own cache, because weights, dtype, template and dimensions are not part of the key.
    """

    def __init__(self, most_mb: float) -> None:
        self._most_bytes = int(most_mb * _MB)
        self._bytes = 0
        self._vectors: OrderedDict[_Key, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ids: Sequence[int], steps: int, *, variant: Hashable = None) -> np.ndarray | None:
        """The vector (dimension,) of a prompt of these token ids after so many steps, or None.

        variant: anything else that changes the vector, for instance a bias.
        """
        key = _key(ids, steps, variant)
        with self._lock:
            if key not in self._vectors:
                return None
            self._vectors.move_to_end(key)
            return self._vectors[key]

    def keep(self, ids: Sequence[int], steps: int, vector: np.ndarray, *, variant: Hashable = None) -> None:
        key, kept = _key(ids, steps, variant), vector.copy()
        kept.flags.writeable = False
        with self._lock:
            if key in self._vectors:
                return
            self._vectors[key] = kept
            self._bytes += _size(key, kept)
            while self._bytes > self._most_bytes:
                self._bytes -= _size(*self._vectors.popitem(last=False))


def _key(ids: Sequence[int], steps: int, variant: Hashable) -> _Key:
    return array("i", ids).tobytes(), steps, variant


def _size(key: _Key, vector: np.ndarray) -> int:
    return len(key[0]) + vector.nbytes + _OVERHEAD_BYTES
