"""Lets no test of this process ask another machine: neither a name server nor an address, whichever library would."""

from __future__ import annotations

import socket
import sys
from functools import cache
from ipaddress import ip_address
from typing import Any

import psutil

# What was tried: code that catches the error cannot hide it.
asked: list[str] = []
_LOCAL_NAMES = frozenset({"", "localhost", socket.gethostname().lower()})
_resolve = socket.getaddrinfo


class NetworkDeniedError(AssertionError):
    pass


def deny_network() -> None:
    """For the rest of the process: audit hooks cannot be taken out."""
    sys.addaudithook(_check)
    socket.getaddrinfo = _resolve_here  # type: ignore[assignment]  # whose event does not tell the flags


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.sendto") or not isinstance(arguments[1], tuple):
        return
    if event == "socket.connect" and arguments[0].type == socket.SOCK_DGRAM:
        return  # sends nothing: so a program finds out its own address
    host = str(arguments[1][0])
    if host.lower() not in _LOCAL_NAMES and host not in _own_addresses() and not _is_loopback(host):
        _deny(f"{event} {host}")


def _resolve_here(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
    if not flags & socket.AI_NUMERICHOST and name.lower() not in _LOCAL_NAMES and not _is_number(name):
        _deny(f"resolve {name}")
    return _resolve(host, port, family, type, proto, flags)


def _deny(what: str) -> None:
    asked.append(what)
    raise NetworkDeniedError(f"A test asks another machine: {what}")


@cache
def _own_addresses() -> frozenset[str]:
    return frozenset(each.address for card in psutil.net_if_addrs().values() for each in card)


def _is_loopback(host: str) -> bool:
    return _is_number(host) and ip_address(_resolve(host, None)[0][4][0]).is_loopback


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return _is_old_number(host)
    return True


def _is_old_number(host: str) -> bool:
    """Whether the resolver takes it for an IPv4 address: 0x7f000001, 127.1, 2130706433."""
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True
