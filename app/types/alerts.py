"""Where alerts can go, by mail or chat: targets that the operator wrote down, one a line, as `NAME = URL`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from app.errors import InputError

_LINE = re.compile(r"(?P<name>[\w .-]{1,60}?)(?:\s+for\s+(?P<users>[^=]+?))?\s*=\s*(?P<url>\S+)")


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """`url` as apprise reads it, which holds credentials. `users`: who may choose it; none: everybody."""

    url: str = field(repr=False)
    users: frozenset[str] = frozenset()

    def is_for(self, user: str) -> bool:
        return not self.users or user in self.users


def read_alerts(text: str) -> dict[str, AlertTarget]:
    """Lines `NAME = URL` or `NAME for USER, USER = URL`, and comments after `#`. Raises InputError, which names the
    line and nothing of what stands in it."""
    found: dict[str, AlertTarget] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            raise InputError(f"Line {number} of GIRCSE_ALERTS_FILE is not NAME = URL, or NAME for USER, USER = URL.")
        users = frozenset(each.strip() for each in (parts["users"] or "").split(",") if each.strip())
        found[parts["name"].strip()] = AlertTarget(parts["url"], users)
    return found
