"""Shows the processes of a GIRCSE_HOME whether a worker runs. Jobs are safe without this lock: they have leases."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout


class WorkerLock:
    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(home / "worker.lock")

    def try_take(self, *, timeout_s: float = 0) -> bool:
        """Returns whether this process now holds the lock. The operating system frees it when the process ends."""
        try:
            self._lock.acquire(timeout=timeout_s)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        self._lock.release()


def is_worker_running(home: Path) -> bool:
    """Tries to take the lock and releases it at once; a worker that starts just then waits for it."""
    worker_lock = WorkerLock(home)
    if worker_lock.try_take():
        worker_lock.release()
        return False
    return True
