"""Credentials for sources, from files of the operator with lines `key = value`.

Each file names the only address to which its credentials may be sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.errors import InputError

_KEYS = ("address", "users", "user", "password", "region", "key_file", "known_hosts")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name, password or key for sources at one address. `address`: the credentials are only sent to this server
    and path prefix. `users`: who may use them; empty: everybody. `key_file`, `known_hosts`: paths, for ssh. `region`:
    of an S3 bucket."""

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
        """Whether they may be sent to `address`: same scheme, host and port, and a path at or below their own."""
        own, target = urlsplit(self.address), urlsplit(address)
        if (own.scheme, own.hostname, own.port) != (target.scheme, target.hostname, target.port):
            return False
        base = own.path.rstrip("/")
        return target.path == base or target.path.startswith(base + "/")


def read_credentials(text: str, *, name: str) -> Credentials:
    """Parses a credentials file. Raises InputError, which names the line's number only: its content is secret."""
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
    users = frozenset(user.strip() for user in values.pop("users", "").split(",") if user.strip())
    return Credentials(**values, users=users)
