"""The one authorizer: decides on every request for something of a collection, whichever interface it came by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from app.errors import ForbiddenError, LoginRequiredError, UnknownCollectionError
from app.types.access import AuditEntry, Principal, Role, current_principal
from app.types.documents import CountedCollection, utc_now

if TYPE_CHECKING:  # it brings in SQL
    from app.catalog import SqlCatalog


def without_hidden(error: UnknownCollectionError, principal: Principal) -> UnknownCollectionError:
    """The error, which names no collection that this principal may not see."""
    return UnknownCollectionError(error.name, list(filter(principal.covers, error.known)))


class Authorizer:
    """Decides by `current_principal`; without one everything is refused."""

    def __init__(self, catalog: SqlCatalog, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._catalog = catalog
        self._clock = clock

    def require_role(self, role: Role = Role.READER) -> Principal:
        """The caller, who has at least this role. Raises LoginRequiredError and ForbiddenError."""
        principal = current_principal()
        if principal is None:
            raise LoginRequiredError("Log in, or show an API key.")
        if principal.role < role:
            raise ForbiddenError(f"This needs the role {role.label}, and {principal.name} is {principal.role.label}.")
        return principal

    @contextmanager
    def require_access(self, role: Role, *collections: str) -> Iterator[Principal]:
        """Access to these collections. A hidden one is reported as missing, inside the block too:
        raises UnknownCollectionError, which names only those that may be seen."""
        principal = self.require_role(role)
        for name in collections:
            if not principal.covers(name):
                raise UnknownCollectionError(name, [each.name for each in self.visible()])
        try:
            yield principal
        except UnknownCollectionError as error:
            raise without_hidden(error, principal) from None

    def require_everywhere(self, role: Role) -> Principal:
        """For what concerns all collections, those included that others make later."""
        principal = self.require_role(role)
        if not principal.sees_everything:
            raise ForbiddenError("This concerns all collections, and you may not see all of them; name one.")
        return principal

    def reaches(self, collection: str) -> bool:
        """Whether the caller may hear of something of their own in this collection: people of all that is theirs,
        a key of what it covers."""
        principal = self.require_role()
        return principal.key_id is None or principal.covers(collection)

    def visible(self) -> list[CountedCollection]:
        principal = self.require_role()
        return [each for each in self._catalog.collections() if principal.covers(each.name)]

    def visible_names(self) -> frozenset[str]:
        principal = self.require_role()
        return frozenset(each.name for each in self._catalog.uncounted_collections() if principal.covers(each.name))

    def note(self, action: str, subject: str, detail: Mapping[str, str] | None = None) -> None:
        """Writes to the audit log in the name of the caller."""
        principal = self.require_role()
        more = {"key": principal.key_id} if principal.key_id else {}
        self._catalog.access.note(
            AuditEntry(self._clock(), principal.name, action, subject, {**more, **(detail or {})})
        )
