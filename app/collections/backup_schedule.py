"""Makes a backup every so many hours, and keeps the newest of them: one at a time, whichever worker gets to it."""

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
    """The worker ends before the backup is whole."""


def backup_name(now: datetime) -> str:
    return f"gircse-{now.astimezone(UTC).strftime(_MOMENT)}.tar.zst"


def scheduled_backups(directory: Path) -> list[tuple[datetime, Path]]:
    """The oldest first. What has another name is somebody's own."""
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
    make: Callable[[Path, Callable[[int], None]], object]  # where to, and whom to tell how far it is
    clock: Callable[[], datetime] = utc_now

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. What fails is tried again after ten minutes, and told in the log."""
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
        """Makes one if it is due, then removes those beyond `keep`; the new one, if there is any."""

        def tell(_: int) -> None:
            if stop is not None and stop.is_set():
                raise _StoppedError

        if not self._is_due():
            return None
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self.directory / ".lock", timeout=0):
                if not self._is_due():  # another worker was first
                    return None
                for left in self.directory.glob(".gircse-*.part"):  # of a worker that was killed
                    left.unlink()
                path = self.directory / backup_name(self.clock())
                self.make(path, tell)
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
