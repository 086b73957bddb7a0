"""Targets of alerts (mail, chat), from a file of the operator with one `NAME = URL` per line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from app.errors import InputError

_LINE = re.compile(r"(?P<name>[\w .-]{1,60}?)(?:\s+for\s+(?P<users>[^=]+?))?\s*=\s*(?P<url>\S+)")


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """A mail or chat address for alerts. `url`: in apprise's format, contains credentials. `users`: who may choose the
    target; empty: everybody."""

    url: str = field(repr=False)
    users: frozenset[str] = frozenset()

    def is_for(self, user: str) -> bool:
        return not self.users or user in self.users


def read_alerts(text: str) -> dict[str, AlertTarget]:
    """Parses lines `NAME = URL` or `NAME for USER, USER = URL`; lines with `#` first are comments.

    Raises InputError, which names the line's number only: its content may be secret.
    """
    found: dict[str, AlertTarget] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            raise InputError(f"Line {number} of GIRCSE_ALERTS_FILE is not NAME = URL, or NAME for USER, USER = URL.")
        users = frozenset(user.strip() for user in (parts["users"] or "").split(",") if user.strip())
        found[parts["name"].strip()] = AlertTarget(parts["url"], users)
    return found
