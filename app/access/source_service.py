"""Synced sources: editors add, run and delete those of their collections. The guard has already checked role and
collection.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from app.access.authorizer import Authorizer
from app.access.quotas import UserQuotas
from app.errors import ForbiddenError, UnknownUserError
from app.ports.sources import SourceCredentials
from app.types.access import Principal, Role, is_of_operator
from app.types.quotas import Allowance
from app.types.source_addresses import check_source, is_local
from app.types.sources import RecurringSource, SourceKind, SourceOptions

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

_AS_IT_IS = SourceOptions()


class SourceService:
    def __init__(self, catalog: SqlCatalog, authorizer: Authorizer, credentials: SourceCredentials) -> None:
        self._catalog = catalog
        self._authorizer = authorizer
        self._credentials = credentials

    def sources(self, collection: str) -> list[RecurringSource]:
        return self._catalog.sources.of_collection(collection)

    def add(
        self,
        collection: str,
        kind: SourceKind,
        address: str,
        *,
        every: timedelta,
        removes: bool,
        options: SourceOptions = _AS_IT_IS,
    ) -> RecurringSource:
        principal = self._authorizer.require_role()
        address = check_source(kind, address, every=every, options=options)
        if is_local(address) and not principal.is_operator:
            raise ForbiddenError("Only the operator may add repositories on this machine's own disks.")
        if options.credentials:
            self._credentials.find(options.credentials, user=principal.name, address=address)
        with self._authorizer.noting("source.added", collection, {"address": address}):
            return self._catalog.sources.add(
                collection, kind, address, every=every, removes=removes, owner=principal.name, options=options
            )

    def credentials(self) -> list[str]:
        return self._credentials.names_for(self._authorizer.require_role().name)

    def delete(self, source_id: str) -> None:
        source = self._catalog.sources.get(source_id)
        with self._authorizer.noting("source.deleted", source.collection, {"address": source.address}):
            self._catalog.sources.delete(source.id)

    def hurry(self, source_id: str) -> RecurringSource:
        return self._catalog.sources.hurry(source_id)


def allowance_by_owner(catalog: SqlCatalog, quotas: UserQuotas) -> Callable[[RecurringSource], Allowance | None]:
    """Returns a function that finds the quota that a source's documents count against, by the owner's current
    rights.
    """
    allowance_of = present_allowance(catalog, quotas)
    return lambda source: allowance_of(source.owner, source.collection)


def present_allowance(catalog: SqlCatalog, quotas: UserQuotas) -> Callable[[str, str], Allowance | None]:
    """Returns a function of a user's name and a collection: the quota against which what the user added before counts
    now. It raises ForbiddenError if the user may no longer add documents.
    """

    def allowance(owner: str, collection: str) -> Allowance | None:
        try:
            user = catalog.access.user(owner)
        except UnknownUserError:
            if is_of_operator(owner):
                return None
            raise ForbiddenError(f"{owner}, who added this source, is no longer a user.") from None
        principal = Principal(user.name, user.role, user.collections, quotas=user.quotas)
        if user.disabled_at is not None or user.role < Role.EDITOR or not principal.covers(collection):
            raise ForbiddenError(f"{owner}, who added this source, may no longer add documents here.")
        return quotas.allowance(principal)

    return allowance
