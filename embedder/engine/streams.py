"""How batches of documents are computed side by side on a CPU, each by its share of the cores.

Threads that compute one batch together wait for each other after each of its thousands of products, a fifth of the time
where nothing else runs. Where another program takes a core, each of these waits becomes a time slice of that program,
and a batch takes ten times as long. Batches that know nothing of each other lose neither.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import torch

from embedder.model.model_thread import model_thread, second_model_thread

_MOST = 2  # each holds a batch in memory


def streams_for(device: str) -> int:
    """Two where a CPU has the cores."""
    return min(_MOST, torch.get_num_threads()) if device == "cpu" else 1


class Streams:
    """By their numbers: 0 is the thread of the process for models. To be called under a lock of the owner, but for
    `submit`, which belongs to who has begun the stream."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.busy: set[int] = set()
        self._second: ThreadPoolExecutor | None = None
        self._cores = torch.get_num_threads()

    def begin(self, stream: int) -> bool:
        """False where it is busy."""
        is_idle = stream not in self.busy
        self.busy.add(stream)
        return is_idle

    def end(self, stream: int) -> None:
        self.busy.discard(stream)
        if self.count > 1 and not self.busy:
            with suppress(RuntimeError):  # the interpreter is shutting down
                model_thread().submit(torch.set_num_threads, self._cores)  # for what computes there next

    def submit(self, stream: int, function: Callable[[int], object]) -> None:
        """Calls `function(stream)` in the stream's thread."""
        self._thread(stream).submit(function, stream)

    def _thread(self, stream: int) -> ThreadPoolExecutor:
        if stream == 0:
            return model_thread()
        if self._second is None:
            self._second = second_model_thread()
        return self._second

    def release(self) -> None:
        """Ends the second thread while nothing is computed, and with it what libraries keep for each thread."""
        if not self.busy and self._second is not None:
            self._second.shutdown(wait=False)
            self._second = None

    def take_cores(self, stream: int, *, is_shared: bool) -> None:
        """In the thread of the stream, before each batch: a library of products has one number for all threads."""
        if self.count > 1:
            is_alone = not is_shared and self.busy <= {stream}
            torch.get_num_threads()  # a new thread takes the number of all others with its first question
            torch.set_num_threads(self._cores if is_alone else self._cores // self.count)
