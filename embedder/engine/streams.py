"""Computes batches of documents in parallel on a CPU, each stream with its share of the cores.

Threads that share one batch wait for each other after each of its thousands of matrix products: a fifth of the time on
an idle machine. If another program occupies a core, each wait lasts one of its time slices, and a batch takes ten times
as long. Independent batches avoid both.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import torch

from embedder.model.model_thread import model_thread, second_model_thread

_MOST = 2  # each stream holds a batch in memory


def streams_for(device: str) -> int:
    """Number of streams: two on a CPU with enough cores, else one."""
    return min(_MOST, torch.get_num_threads()) if device == "cpu" else 1


class Streams:
    """The streams of an engine. Stream 0 is the process's model thread.

    Call all methods under the owner's lock, except `submit`: only the caller that began the stream calls it.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.busy: set[int] = set()
        self._second: ThreadPoolExecutor | None = None
        self._cores = torch.get_num_threads()

    def begin(self, stream: int) -> bool:
        """Marks the stream as busy; returns False if it already is."""
        is_idle = stream not in self.busy
        self.busy.add(stream)
        return is_idle

    def end(self, stream: int) -> None:
        self.busy.discard(stream)
        if self.count > 1 and not self.busy:
            with suppress(RuntimeError):  # the interpreter is shutting down
                model_thread().submit(torch.set_num_threads, self._cores)  # for later work in that thread

    def submit(self, stream: int, function: Callable[[int], object]) -> None:
        """Runs `function(stream)` in the stream's thread."""
        self._thread(stream).submit(function, stream)

    def _thread(self, stream: int) -> ThreadPoolExecutor:
        if stream == 0:
            return model_thread()
        if self._second is None:
            self._second = second_model_thread()
        return self._second

    def release(self) -> None:
        """Ends the second thread if it is idle, and frees the memory that libraries keep per thread."""
        if not self.busy and self._second is not None:
            self._second.shutdown(wait=False)
            self._second = None

    def take_cores(self, stream: int, *, is_shared: bool) -> None:
        """Sets the number of cores, in the stream's thread before each batch: the BLAS library has one number for all
        threads."""
        if self.count > 1:
            is_alone = not is_shared and self.busy <= {stream}
            torch.get_num_threads()  # the first call makes a new thread adopt the global number
            torch.set_num_threads(self._cores if is_alone else self._cores // self.count)
