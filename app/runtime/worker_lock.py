"""Lets processes of one GIRCSE_HOME see whether a worker is among them. Jobs are safe without it: they are leased."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout


class WorkerLock:
    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(home / "worker.lock")

    def try_take(self, *, timeout_s: float = 0) -> bool:
        """True when this process now holds the lock. The system frees it when the process ends."""
        try:
            self._lock.acquire(timeout=timeout_s)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        self._lock.release()


def is_worker_running(home: Path) -> bool:
    """Takes the lock for an instant; a worker that starts just then waits for it."""
    worker_lock = WorkerLock(home)
    if worker_lock.try_take():
        worker_lock.release()
        return False
    return True
