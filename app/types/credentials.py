"""Credentials for sources: files of the operator, lines `key = value`, which say where they may be sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.errors import InputError

_KEYS = ("address", "users", "user", "password", "region", "key_file", "known_hosts")


@dataclass(frozen=True, slots=True)
class Credentials:
    """`address`: they go to no other server, and below no other path. `users`: who may use them; none: everybody.

    `key_file` and `known_hosts` are paths, for ssh; `region` is that of a bucket.
    """

    address: str
    users: frozenset[str] = frozenset()
    user: str = ""
    password: str = field(default="", repr=False)
    region: str = ""
    key_file: str = ""
    known_hosts: str = ""

    def is_for(self, user: str) -> bool:
        return not self.users or user in self.users

    def covers(self, address: str) -> bool:
        """The same scheme, host and port, and a path below its own."""
        own, asked = urlsplit(self.address), urlsplit(address)
        if (own.scheme, own.hostname, own.port) != (asked.scheme, asked.hostname, asked.port):
            return False
        base = own.path.rstrip("/")
        return asked.path == base or asked.path.startswith(base + "/")


def read_credentials(text: str, *, name: str) -> Credentials:
    """Raises InputError, which names the line and nothing of what stands in it."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, sign, value = line.partition("=")
        if not sign or key.strip() not in _KEYS:
            raise InputError(f"Line {number} of the credentials {name!r} is not one of: {', '.join(_KEYS)} = VALUE.")
        values[key.strip()] = value.strip()
    try:
        is_address = bool(urlsplit(values.get("address", "")).hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise InputError(f"The credentials {name!r} need a line `address = scheme://host`: where they may be sent.")
    users = frozenset(each.strip() for each in values.pop("users", "").split(",") if each.strip())
    return Credentials(**values, users=users)
