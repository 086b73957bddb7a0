"""The one authorizer: checks every request that concerns a collection, from any interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from app.access import audit
from app.errors import (
    CatalogUnavailableError,
    ForbiddenError,
    GircseError,
    LoginRequiredError,
    UnknownCollectionError,
)
from app.types.access import AuditEntry, Principal, Role, current_principal
from app.types.documents import CountedCollection, utc_now

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

_UNAVAILABLE = 500  # from here on a status does not say that nothing was done


def without_hidden(error: UnknownCollectionError, principal: Principal) -> UnknownCollectionError:
    """The error without the names of collections that this principal may not see."""
    return UnknownCollectionError(error.name, list(filter(principal.covers, error.known)))


class Authorizer:
    """Checks `current_principal`; denies everything if there is none."""

    def __init__(self, catalog: SqlCatalog, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._catalog = catalog
        self._clock = clock

    def require_role(self, role: Role = Role.READER) -> Principal:
        """The caller, if they have at least this role. Raises LoginRequiredError and ForbiddenError."""
        principal = current_principal()
        if principal is None:
            raise LoginRequiredError("Log in or send an API key.")
        if principal.role < role:
            raise ForbiddenError(
                f"This needs the role {role.label}; {principal.name} has the role {principal.role.label}. "
                "An admin of this server can change that."
            )
        return principal

    @contextmanager
    def require_access(self, role: Role, *collections: str) -> Iterator[Principal]:
        """Requires access to these collections. Also inside the block, a hidden collection is reported as missing:
        UnknownCollectionError names only collections that the caller may see.
        """
        principal = self.require_role(role)
        for name in collections:
            if not principal.covers(name):
                raise UnknownCollectionError(name, [collection.name for collection in self.visible()])
        try:
            yield principal
        except UnknownCollectionError as error:
            raise without_hidden(error, principal) from None

    def require_everywhere(self, role: Role) -> Principal:
        """Requires access to all collections, including future ones."""
        principal = self.require_role(role)
        if not principal.sees_everything:
            raise ForbiddenError("This needs access to all collections, which you do not have; name one.")
        return principal

    def reaches(self, collection: str) -> bool:
        """True if the caller may see their own data (such as saved searches) in this collection. A user sees all of
        it, an API key only in the collections that it covers.
        """
        principal = self.require_role()
        return principal.key_id is None or principal.covers(collection)

    def visible(self) -> list[CountedCollection]:
        principal = self.require_role()
        return [collection for collection in self._catalog.collections() if principal.covers(collection.name)]

    def visible_names(self) -> frozenset[str]:
        principal = self.require_role()
        names = (collection.name for collection in self._catalog.uncounted_collections())
        return frozenset(filter(principal.covers, names))

    @contextmanager
    def noting(self, action: str, subject: str, detail: Mapping[str, str] | None = None) -> Iterator[None]:
        """Add an entry to the audit log in the caller's name before the block, which does the operation. If the block
        refuses it (a status of 4xx), the entry is taken back: a log of refusals would be false, and without bound.
        """
        ids = self._catalog.access.note(self._entry(action, subject, detail))
        try:
            yield
        except GircseError as error:
            if error.status < _UNAVAILABLE:
                with suppress(CatalogUnavailableError):
                    self._catalog.access.take_back(ids)
            raise

    def note_refused(self, action: str, subject: str) -> None:
        """Add an entry for an attempt. The caller limits their number."""
        self._catalog.access.note(self._entry(action, subject, None))

    def note_done(self, action: str, subject: str, detail: Mapping[str, str] | None = None) -> None:
        """As `note`, after the operation, which must not fail any more."""
        self.note_all_done(action, {subject: detail or {}})

    def note_all_done(self, action: str, details: Mapping[str, Mapping[str, str]]) -> None:
        """`note_done` for several subjects."""
        entries = [self._entry(action, subject, detail) for subject, detail in details.items()]
        audit.note_done(self._catalog.access, entries)

    def _entry(self, action: str, subject: str, detail: Mapping[str, str] | None) -> AuditEntry:
        principal = self.require_role()
        more = {"key": principal.key_id} if principal.key_id else {}
        return AuditEntry(self._clock(), principal.name, action, subject, {**more, **(detail or {})})
