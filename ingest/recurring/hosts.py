"""Resolves a host once and checks its addresses, for clients of others: what is checked is what is connected to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from app.errors import DocumentError
from ingest.addresses import is_public

Resolve = Callable[[str, int], Sequence[str]]


def resolve_host(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class HostGuard:
    def __init__(
        self,
        *,
        is_allowed: Callable[[str], bool] = is_public,  # asked of every address before it is connected to
        resolve: Resolve = resolve_host,
    ) -> None:
        self._is_allowed = is_allowed
        self._resolve = resolve

    def addresses(self, host: str, port: int) -> list[str]:
        """Raises DocumentError."""
        try:
            found = list(self._resolve(host, port))
        except (OSError, UnicodeError) as error:
            raise DocumentError(f"The name {host!r} is not known ({error}). Check the address.") from error
        require_allowed(host, found, self._is_allowed)
        return found


def require_allowed(host: str, addresses: Sequence[str], is_allowed: Callable[[str], bool]) -> None:
    """Raises DocumentError."""
    for address in addresses:
        if not is_allowed(address):
            raise DocumentError(
                f"{host} is at {address}, which is not on the public internet. "
                "GIRCSE_ALLOW_PRIVATE_URLS=true allows such addresses."
            )
