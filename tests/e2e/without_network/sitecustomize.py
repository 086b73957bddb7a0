"""Imported by every Python process of the offline test: refuses and records each attempt to reach another machine."""

import ipaddress
import os
import socket
import sys
import traceback

_LOOPBACK_NAMES = (None, "", b"", "localhost", b"localhost", "::", "0.0.0.0")
_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname")


def _host(event: str, args: tuple) -> object:
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        return args[0]
    sock, address = args[0], args[1]
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return None  # a socket of this machine, or one that is connected already
    return address[0]


def _is_this_machine(host: object) -> bool:
    if host in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
    except ValueError:
        return False


def _refuse_other_machines(event: str, args: tuple) -> None:
    if event not in _EVENTS or _is_this_machine(host := _host(event, args)):
        return
    with open(os.environ["NETWORK_ATTEMPTS"], "a", encoding="utf-8") as attempts:
        attempts.write(f"{event} {host!r} by {sys.argv}\n{''.join(traceback.format_stack(limit=12))}\n")
    raise OSError(f"no network in this test: {event} {host!r}")


sys.addaudithook(_refuse_other_machines)
