"""PostgreSQL connections that notice a server that hangs: its machine still takes packets, so TCP never fails.

A statement may take long for good reasons. After QUIET_S without an answer the server is asked on a connection of its
own; while it answers there, the statement goes on.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Generator
from contextlib import closing, suppress
from typing import Any

QUIET_S = 2.0
PING_S = 1.5
AWAY_S = 1.0  # for so long after it did not answer, nobody waits for it
_SSL_REQUEST = bytes.fromhex("0000000804d2162f")  # every server answers it with one byte, before any log-in

_log = logging.getLogger(__name__)


class HangWatch:
    """Of one server. `connect` opens connections as `psycopg.connect` does; the module, which is an optional extra, is
    handed in."""

    def __init__(self, psycopg: Any) -> None:
        self._psycopg = psycopg
        self._away_until = 0.0
        watch = self

        class Watched(psycopg.Connection):
            def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
                return super().wait(watch._watched(gen, self), *arguments, **options)

        self._class = Watched

    def connect(self, **parameters: Any) -> Any:
        """Raises psycopg.OperationalError."""
        self._refuse_if_away()
        try:
            return self._class.connect(**parameters)
        except self._psycopg.errors.ConnectionTimeout:
            self._away_until = time.monotonic() + AWAY_S
            raise

    def _watched(self, waiting: Any, connection: Any) -> Generator[Any, Any, Any]:
        """psycopg sends how the socket is: 0 where nothing came within a tenth of a second."""
        self._refuse_if_away()
        heard_at = time.monotonic()
        try:
            state = next(waiting)
            while True:
                ready = yield state
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > QUIET_S:
                    if not _answers(connection.info):
                        self._away_until = time.monotonic() + AWAY_S
                        connection.pgconn.finish()  # it is in the middle of a statement: of no further use
                        _log.warning("PostgreSQL at %s hangs.", connection.info.host)
                        raise self._psycopg.OperationalError("the server has stopped answering")
                    heard_at = time.monotonic()
                state = waiting.send(ready)
        except StopIteration as end:
            return end.value

    def _refuse_if_away(self) -> None:
        if time.monotonic() < self._away_until:
            raise self._psycopg.OperationalError("the server did not answer a moment ago")


def _answers(info: Any) -> bool:
    with suppress(OSError), closing(_socket_to(info)) as asked:
        asked.sendall(_SSL_REQUEST)
        return bool(asked.recv(1))
    return False


def _socket_to(info: Any) -> socket.socket:
    if not info.host.startswith("/"):
        return socket.create_connection((info.hostaddr or info.host, info.port), timeout=PING_S)
    asked = socket.socket(socket.AF_UNIX)
    asked.settimeout(PING_S)
    asked.connect(f"{info.host}/.s.PGSQL.{info.port}")
    return asked
