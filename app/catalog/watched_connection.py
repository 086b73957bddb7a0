"""PostgreSQL connections that detect a hanging server: its machine still accepts packets, so TCP never fails.

A statement may take long for good reasons. After QUIET_S without an answer, a second connection pings the server; the
statement continues as long as the ping is answered.
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
REFUSE_S = 1.0  # after a failed ping, refuse statements for this long
_SSL_REQUEST = bytes.fromhex("0000000804d2162f")  # every server answers it with one byte, before any login

_log = logging.getLogger(__name__)


class HangWatch:
    """Watches one server. `connect` opens connections like `psycopg.connect`; the caller passes the module, an
    optional extra.
    """

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
        self._refuse_if_unresponsive()
        try:
            return self._class.connect(**parameters)
        except self._psycopg.errors.ConnectionTimeout:
            self._away_until = time.monotonic() + REFUSE_S
            raise

    def _watched(self, waiting: Any, connection: Any) -> Generator[Any, Any, Any]:
        """Wraps psycopg's wait generator. psycopg sends the socket's state: 0 if nothing arrived within 0.1 s."""
        self._refuse_if_unresponsive()
        heard_at = time.monotonic()
        try:
            state = next(waiting)
            while True:
                ready = yield state
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > QUIET_S:
                    if not _answers(connection.info):
                        self._away_until = time.monotonic() + REFUSE_S
                        connection.pgconn.finish()  # useless now: it is in the middle of a statement
                        _log.warning("PostgreSQL at %s does not respond; closing the connection.", connection.info.host)
                        raise self._psycopg.OperationalError("the server stopped responding")
                    heard_at = time.monotonic()
                state = waiting.send(ready)
        except StopIteration as end:
            return end.value

    def _refuse_if_unresponsive(self) -> None:
        if time.monotonic() < self._away_until:
            raise self._psycopg.OperationalError("the server did not respond a moment ago")


def _answers(info: Any) -> bool:
    with suppress(OSError), closing(_socket_to(info)) as connection:
        connection.sendall(_SSL_REQUEST)
        return bool(connection.recv(1))
    return False


def _socket_to(info: Any) -> socket.socket:
    if not info.host.startswith("/"):
        return socket.create_connection((info.hostaddr or info.host, info.port), timeout=PING_S)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PING_S)
    connection.connect(f"{info.host}/.s.PGSQL.{info.port}")
    return connection
