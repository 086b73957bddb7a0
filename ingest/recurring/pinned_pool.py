"""Connections of urllib3 to addresses that were checked; the name in TLS and in Host is the one that was asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NewConnectionError

from ingest.recurring.hosts import HostGuard

_TIMEOUT = urllib3.Timeout(connect=20, read=60)
_RETRIES = urllib3.Retry(total=2, redirect=3, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504))


@contextmanager
def pinned_pool(guard: HostGuard) -> Iterator[urllib3.PoolManager]:
    """What it opens is closed at the end."""

    class Plain(_Pinned, HTTPConnection):
        _guard = guard

    class Secure(_Pinned, HTTPSConnection):
        _guard = guard

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    with urllib3.PoolManager(timeout=_TIMEOUT, retries=_RETRIES) as pool:
        pool.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
        yield pool


class _Pinned:
    _guard: HostGuard

    def _new_conn(self: Any) -> socket.socket:
        failure: OSError | None = None
        for address in self._guard.addresses(self._dns_host, self.port):  # raises DocumentError, which nobody retries
            try:
                return socket.create_connection((address, self.port), self.timeout)
            except OSError as error:
                failure = error
        raise NewConnectionError(self, f"it does not answer ({type(failure).__name__})")
