"""Resolves a host once and checks its addresses, so that clients connect to the address that was checked."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from app.errors import DocumentError
from ingest.addresses import is_public

Resolve = Callable[[str, int], Sequence[str]]


def resolve_host(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class SourceHostGuard:
    def __init__(
        self,
        *,
        is_allowed: Callable[[str], bool] = is_public,  # called with every address before the connection
        resolve: Resolve = resolve_host,
    ) -> None:
        self._is_allowed = is_allowed
        self._resolve = resolve

    def addresses(self, host: str, port: int) -> list[str]:
        """The checked addresses of `host`. Raises DocumentError if it is unknown or an address is not allowed."""
        try:
            resolved = list(self._resolve(host, port))
        except (OSError, UnicodeError) as error:
            raise DocumentError(f"The host name {host!r} cannot be resolved ({error}). Check the address.") from error
        require_allowed(host, resolved, self._is_allowed)
        return resolved


def require_allowed(host: str, addresses: Sequence[str], is_allowed: Callable[[str], bool]) -> None:
    """Raises DocumentError if one of the addresses is not allowed."""
    for address in addresses:
        if not is_allowed(address):
            raise DocumentError(
                f"{host} is at {address}, which is not on the public internet. "
                "GIRCSE_ALLOW_PRIVATE_URLS=true allows such addresses."
            )
