"""Quotas of each user for storage and requests: the defaults of the settings, unless an admin set others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from app.access.accounts import ADMIN
from app.access.hashing import digest
from app.access.throttle import WINDOW
from app.errors import QuotaExceededError, RequestQuotaError
from app.settings import Settings
from app.types.access import Principal
from app.types.documents import utc_now
from app.types.quotas import UNLIMITED, Allowance, QuotaName, QuotaUse, in_bytes

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlAccess

FORM_BYTES = 64 * 1024  # allowed size of a form beside its file


class UserQuotas:
    """The user `admin` and the operator have no quotas; they manage those of others."""

    def __init__(self, ledger: SqlAccess, settings: Settings, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._ledger = ledger
        self._contact = settings.quota_contact
        self._clock = clock
        self._defaults: dict[QuotaName, int | None] = {
            "bytes": None if settings.quota_mb is None else int(settings.quota_mb * 1_000_000),
            "documents": settings.quota_documents,
            "requests": settings.quota_requests,
        }

    def allowance(self, principal: Principal) -> Allowance | None:
        """None: no quota applies."""
        if principal.is_operator:
            return None
        limits = (self._limit(principal, "bytes"), self._limit(principal, "documents"))
        return Allowance(principal.name, *limits, contact=self._contact)

    def use(self, principal: Principal) -> list[QuotaUse]:
        stored = self._ledger.stored_amount(principal.name)
        counter, now = _counter_of(principal), self._clock()
        counters = self._ledger.attempts([_at(counter, now)], since=now - WINDOW)
        used: dict[QuotaName, int] = {
            "bytes": stored.bytes,
            "documents": stored.documents,
            "requests": sum(counted.failures for counted in counters.values()),
        }
        return [QuotaUse(name, count, self._limit(principal, name)) for name, count in used.items()]

    def count_request(self, principal: Principal) -> None:
        """Counts before the request runs, in the catalog, so that concurrent requests at several servers cannot
        exceed the limit. Windows are clock minutes. Raises RequestQuotaError.
        """
        limit = self._limit(principal, "requests")
        if limit is None:
            return
        now = self._clock()
        counter = _at(_counter_of(principal), now)
        # `since` deletes only counters that are older than the window of failed logins.
        counted = self._ledger.begin_attempt([counter], at=now, since=now - WINDOW)[counter].failures
        if counted > limit:
            raise RequestQuotaError(
                f"{principal.name} may send {limit:,} requests a minute. Wait for the next minute; for a higher limit "
                f"ask {self._contact}.",
                retry_after_s=max(1, 60 - now.second),
            )

    def require_room_for_body(self, principal: Principal, byte_count: int) -> None:
        """Rejects a request body that cannot fit this user's quota, even if it replaces a document. Raises
        QuotaExceededError. Otherwise the quota is checked again when the document is stored.
        """
        limit = self._limit(principal, "bytes")
        if limit is None:
            return
        stored = self._ledger.stored_amount(principal.name)
        if byte_count - FORM_BYTES > limit - stored.bytes + stored.largest:
            raise QuotaExceededError(
                f"{principal.name} may store {in_bytes(limit)} and uses {in_bytes(stored.bytes)}; this file has "
                f"{in_bytes(byte_count)}. Delete documents, or ask {self._contact}."
            )

    def _limit(self, principal: Principal, name: QuotaName) -> int | None:
        if principal.is_operator or principal.name == ADMIN:
            return None
        own: int | None = getattr(principal.quotas, name)
        if own is None:
            return self._defaults[name]
        return None if own == UNLIMITED else own


def _counter_of(principal: Principal) -> str:
    return f"requests:{digest(principal.name)[:32]}"


def _at(counter: str, now: datetime) -> str:
    return f"{counter}:{int(now.timestamp() // 60)}"
