"""Starts the Edge server of a data folder, or finds one that another process started, and restarts it after a crash."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from app.edge.connection import BUSY_EXIT_CODE, EdgeConnection, is_answering, read_connection
from app.errors import VectorIndexUnavailableError, full_disk_reason

PUT_ASIDE = "damaged-{}"  # folder for all shards if their table is damaged or lost

_MAX_STARTS = 3
_POLL_INTERVAL_S = 0.05
_BUSY_PAUSE_S = 0.2
_STOP_TIMEOUT_S = 15
_PATIENCE_S = 3.5  # for a request, so that the API can report a missing index within 5 s
_PROBE_S = 1.5
_HANG_S = 3.0  # a running server that has responded before and is silent this long is considered hung
_AWAY_S = 2.0  # after a failed start or a wait that timed out, calls fail at once for this time
_MIN_FREE_BYTES = 64 * 1024  # the server needs some to write `edge.json`
_MAX_LOG_BYTES = 1_000_000
_LOG_TAIL_CHARS = 500


def edge_folder(home: Path) -> Path:
    """The data folder of the embedded engine in a home folder."""
    return home / "edge"


class EdgeProcess:
    """The Edge server of one data folder. Call `start` or `reach` at any time: they cost one request if the server
    responds, and restart a dead server.

    The server ends with the process that started it; other processes that used it start a new one at their next call.
    """

    def __init__(self, data_dir: Path, *, start_timeout_s: float = 60, patience_s: float = _PATIENCE_S) -> None:
        self._data_dir = data_dir
        self._log_file = data_dir / "edge.log"
        self._start_timeout_s = start_timeout_s
        self._patience_s = patience_s
        self._child: subprocess.Popen[bytes] | None = None
        self._has_answered = False  # whether the present child has responded
        self._lock = threading.Lock()
        self._away_until = 0.0
        self._reason = ""  # why calls fail until then

    def start(self) -> EdgeConnection:
        """Wait for the server as long as loading a large index may take."""
        return self._find_within(self._start_timeout_s)

    def reach(self) -> EdgeConnection:
        """Like `start`, but wait only `patience_s`: a server that hangs while it starts must not hold a request."""
        return self._find_within(self._patience_s)

    def begin(self) -> None:
        """Start the server if none responds, without waiting for it (`start` waits)."""
        with self._lock:
            connection = read_connection(self._data_dir)
            if self._child is None and not (connection is not None and is_answering(connection)):
                self._spawn()

    def stop(self) -> None:
        """Stop the server if this process started it. Writes are flushed first."""
        with self._lock:
            child, self._child = self._child, None
            if child is None:
                return
            if child.stdin is not None:
                child.stdin.close()
            try:
                child.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()  # loses nothing: the write-ahead log has all unflushed writes
                child.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _find_within(self, seconds: float) -> EdgeConnection:
        begun = time.monotonic()
        self._refuse_if_away()
        if not self._lock.acquire(timeout=seconds):
            raise VectorIndexUnavailableError(self._silence(seconds))
        try:
            self._refuse_if_away()  # the wait of another caller may have timed out meanwhile
            return self._find_or_start(begun, seconds)
        finally:
            self._lock.release()

    def _refuse_if_away(self) -> None:
        if time.monotonic() < self._away_until:
            raise VectorIndexUnavailableError(self._reason)

    def _find_or_start(self, begun: float, seconds: float) -> EdgeConnection:
        """Call with the lock held. `begun`: time.monotonic() when the caller began to wait."""
        starts = 0
        while (left_s := begun + seconds - time.monotonic()) > 0:
            connection = read_connection(self._data_dir)
            if connection is not None and is_answering(connection, timeout_s=min(_PROBE_S, left_s)):
                self._has_answered = True
                return connection
            exit_code = None if self._child is None else self._child.poll()
            is_running = self._child is not None and exit_code is None
            if is_running and self._has_answered and time.monotonic() > begun + _HANG_S:
                raise VectorIndexUnavailableError(self._hang())
            if self._child is None or exit_code is not None:
                if exit_code == BUSY_EXIT_CODE:
                    time.sleep(_BUSY_PAUSE_S)  # another server is starting or stopping
                elif starts == _MAX_STARTS:
                    raise self._give_up(self._failed_start())
                else:
                    starts += 1
                self._spawn()
            time.sleep(_POLL_INTERVAL_S)
        raise self._give_up(self._silence(seconds))

    def _give_up(self, reason: str) -> VectorIndexUnavailableError:
        self._away_until, self._reason = time.monotonic() + _AWAY_S, reason
        return VectorIndexUnavailableError(reason)

    def _failed_start(self) -> str:
        return (
            f"The embedded vector engine of {self._data_dir} does not start. {self._log_tail()} "
            f"See {self._log_file}, or set GIRCSE_QDRANT_URL to use a Qdrant server instead."
        )

    def _silence(self, seconds: float) -> str:
        return (
            f"The embedded vector engine of {self._data_dir} has not responded for {seconds:g} s. Try again soon if it "
            f"is starting; if its process is suspended, resume it. {self._log_tail()} See {self._log_file}."
        )

    def _hang(self) -> str:
        pid = None if self._child is None else self._child.pid
        return (
            f"The embedded vector engine (process {pid}) does not respond. If it is suspended, resume it. "
            "Otherwise kill it: a new one starts at once."
        )

    def _spawn(self) -> None:
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(self._data_dir).free < _MIN_FREE_BYTES:
            raise VectorIndexUnavailableError(full_disk_reason(str(self._data_dir)))
        is_long = self._log_file.exists() and self._log_file.stat().st_size > _MAX_LOG_BYTES
        with open(self._log_file, "wb" if is_long else "ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - our own module, no shell
                # -P: a folder named `app` in the current directory must not shadow this package.
                [sys.executable, "-P", "-m", "app.edge.server", str(self._data_dir.absolute())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C must only reach the parent, which still needs the server
            )
        self._has_answered = False
        threading.Thread(target=self._revive, args=(self._child,), daemon=True, name="edge-watch").start()

    def _revive(self, child: subprocess.Popen[bytes]) -> None:
        """Start a new server as soon as this one was killed, so that searches need not wait.

        A server that ended normally or never responded is left to the next call, which starts it or reports the reason.
        """
        if child.wait() in (0, -signal.SIGTERM):
            return
        with self._lock:
            if self._child is child and self._has_answered:
                with suppress(VectorIndexUnavailableError):
                    self._find_or_start(time.monotonic(), self._start_timeout_s)

    def _log_tail(self) -> str:
        text = self._log_file.read_text("utf-8", "replace") if self._log_file.exists() else ""
        return f"End of its log: {text[-_LOG_TAIL_CHARS:].strip()!r}." if text.strip() else ""
