"""The one gate: whoever asks for something of a collection passes it, whichever door they came in by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from app.access.principal import Principal, Role, current_principal
from app.access.types import AuditEntry
from app.errors import ForbiddenError, LoginRequiredError, UnknownCollectionError
from app.ports.parts import Catalog
from app.types.documents import (
    CountedCollection,
    utc_now,
)


class Authorizer:
    """Asks for `current_principal`; where there is none, nothing is let through."""

    def __init__(self, catalog: Catalog, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._catalog = catalog
        self._clock = clock

    def who(self, role: Role = Role.READER) -> Principal:
        """Whoever asks, who has at least this role. Raises LoginRequiredError and ForbiddenError."""
        principal = current_principal()
        if principal is None:
            raise LoginRequiredError("Log in, or show an API key.")
        if principal.role < role:
            raise ForbiddenError(f"This needs the role {role.label}, and {principal.name} is {principal.role.label}.")
        return principal

    @contextmanager
    def passing(self, role: Role, *collections: str) -> Iterator[Principal]:
        """To work with these collections. One that may not be seen is as one that is not there, inside the block too:
        raises UnknownCollectionError, which names only those that may be seen."""
        principal = self.who(role)
        for name in collections:
            if not principal.covers(name):
                raise UnknownCollectionError(name, [each.name for each in self.visible()])
        try:
            yield principal
        except UnknownCollectionError as error:
            raise UnknownCollectionError(error.name, list(filter(principal.covers, error.known))) from None

    def passing_everywhere(self, role: Role) -> Principal:
        """For what concerns all collections, those included that others make later."""
        principal = self.who(role)
        if not principal.sees_everything:
            raise ForbiddenError("This concerns all collections, and you may not see all of them; name one.")
        return principal

    def visible(self) -> list[CountedCollection]:
        principal = self.who()
        return [each for each in self._catalog.collections() if principal.covers(each.name)]

    def note(self, action: str, subject: str, detail: Mapping[str, str] | None = None) -> None:
        """For the audit log, in the name of whoever asks."""
        principal = self.who()
        more = {"key": principal.key_id} if principal.key_id else {}
        self._catalog.note(AuditEntry(self._clock(), principal.name, action, subject, {**more, **(detail or {})}))
