"""Reports which paths below given folders changed, once they stayed unchanged for a while. Knows no documents."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from watchfiles import watch

from app.errors import UnavailableError

_GROUPING_MS = 100
_POLL_DELAY_MS = 500
_TIMEOUT_MS = 200  # interval without changes after which the watcher checks whether to stop
_FLOOD = 1000  # pending changes: the system's queue may have lost some, so all folders are checked


class Quiet:
    """Holds changed paths until they stay unchanged for `quiet_s`, so that a file is not ingested while it is
    written."""

    def __init__(self, quiet_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._heard: dict[Path, float] = {}

    def __len__(self) -> int:
        return len(self._heard)

    def add(self, paths: set[Path]) -> None:
        now = self._clock()
        self._heard.update(dict.fromkeys(paths, now))

    def take(self) -> set[Path]:
        """Removes and returns the paths that have been quiet for long enough."""
        until = self._clock() - self._quiet_s
        quiet = {path for path, heard in self._heard.items() if heard <= until}
        for path in quiet:
            del self._heard[path]
        return quiet


class FolderWatch:
    """Records every change from `__enter__` on, except below the folder `without`.

    With `is_polling` it compares the folders at intervals, which network disks need.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        without: Path | None = None,
        quiet_s: float = 1.0,
        is_polling: bool = False,
    ) -> None:
        self._roots = roots
        self._without = without.resolve() if without is not None else None
        self._is_polling = is_polling
        self._quiet = Quiet(quiet_s)
        self._batches: queue.SimpleQueue[set[Path] | Exception] = queue.SimpleQueue()
        self._stop = threading.Event()
        # In the main thread the library would swallow signals.
        self._thread = threading.Thread(target=self._listen, name="folder-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._receive(1.0):  # the first batch, even if empty, shows that the watcher is running
            pass
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def quiet_paths(self, *, wait_s: float) -> set[Path]:
        """Waits up to `wait_s` for changes; returns the paths that stayed unchanged for `quiet_s`. Raises
        UnavailableError when the folders cannot be watched."""
        self._receive(wait_s)
        return self._quiet.take()

    def put_back(self, paths: set[Path]) -> None:
        """Counts the paths as changed again, because they could not be processed."""
        self._quiet.add(paths)

    def _receive(self, wait_s: float) -> bool:
        """Whether a batch, even an empty one, arrived within `wait_s`. Raises UnavailableError if watching failed."""
        try:
            batch = self._batches.get(timeout=wait_s)
        except queue.Empty:
            return False
        if isinstance(batch, Exception):
            raise UnavailableError(
                f"The folders cannot be watched ({batch}). Raise the system's limit of watches (on Linux: "
                "sysctl fs.inotify.max_user_watches), or check them at intervals with --poll."
            ) from batch
        self._quiet.add(batch)
        if len(self._quiet) >= _FLOOD:
            self._quiet.add(set(self._roots))
        return True

    def _is_wanted(self, path: Path) -> bool:
        return self._without is None or not path.is_relative_to(self._without)

    def _listen(self) -> None:
        try:
            for changes in watch(
                *self._roots,
                watch_filter=None,
                debounce=_GROUPING_MS,
                rust_timeout=_TIMEOUT_MS,
                yield_on_timeout=True,
                stop_event=self._stop,
                force_polling=self._is_polling or None,
                poll_delay_ms=_POLL_DELAY_MS,
                ignore_permission_denied=True,
            ):
                self._batches.put({path for _, name in changes if self._is_wanted(path := Path(name))})
        except (OSError, RuntimeError) as error:  # the library's own error is a RuntimeError
            self._batches.put(error)
