"""Makes scheduled backups and keeps the newest ones. A lock lets only one of several workers make each backup."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from app.errors import GircseError
from app.types.documents import utc_now

log = logging.getLogger(__name__)

_NAME = re.compile(r"gircse-(\d{8}T\d{6}Z)\.tar\.zst")
_MOMENT = "%Y%m%dT%H%M%SZ"
_LOOK_S = 60.0
_RETRY_S = 600.0


class _StoppedError(Exception):
    """The worker stops before the backup is complete."""


def backup_name(now: datetime) -> str:
    return f"gircse-{now.astimezone(UTC).strftime(_MOMENT)}.tar.zst"


def scheduled_backups(directory: Path) -> list[tuple[datetime, Path]]:
    """Time and path of scheduled backups, oldest first. Files with other names are ignored: a user put them there."""
    found = ((_NAME.fullmatch(path.name), path) for path in (directory.iterdir() if directory.is_dir() else ()))
    return sorted(
        (datetime.strptime(match[1], _MOMENT).replace(tzinfo=UTC), path) for match, path in found if match is not None
    )


def last_backup(directory: Path | None) -> Path | None:
    found = scheduled_backups(directory) if directory else []
    return found[-1][1] if found else None


@dataclass(frozen=True, slots=True)
class BackupSchedule:
    directory: Path
    every: timedelta
    keep: int
    make: Callable[[Path, Callable[[int], None]], object]  # arguments: target path, progress callback
    clock: Callable[[], datetime] = utc_now

    def run(self, stop: threading.Event) -> None:
        """Make backups when they are due, until `stop` is set. Logs a failure and retries after ten minutes."""
        while not stop.is_set():
            pause_s = _LOOK_S
            try:
                self.run_once(stop)
            except _StoppedError:
                return
            except (GircseError, OSError) as error:
                log.error("The scheduled backup into %s failed: %s", self.directory, error)
                pause_s = _RETRY_S
            stop.wait(pause_s)

    def run_once(self, stop: threading.Event | None = None) -> Path | None:
        """Make a backup if it is due, then delete all but the newest `keep`. Returns the new backup or None."""

        def on_progress(_: int) -> None:
            if stop is not None and stop.is_set():
                raise _StoppedError

        if not self._is_due():
            return None
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self.directory / ".lock", timeout=0):
                if not self._is_due():  # another worker has just made it
                    return None
                for left in self.directory.glob(".gircse-*.part"):  # left by a killed worker
                    left.unlink()
                path = self.directory / backup_name(self.clock())
                self.make(path, on_progress)
                for _, old in scheduled_backups(self.directory)[: -self.keep]:
                    old.unlink(missing_ok=True)
        except Timeout:
            return None
        log.info("Backed up into %s", path)
        return path

    def _is_due(self) -> bool:
        now = self.clock()
        past = [made_at for made_at, _ in scheduled_backups(self.directory) if made_at <= now]
        return not past or now - past[-1] >= self.every
