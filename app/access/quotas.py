"""What each user may store and ask: the settings, unless an admin gave that user something else."""

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

if TYPE_CHECKING:  # it brings in SQL
    from app.catalog import SqlAccess

FORM_BYTES = 64 * 1024  # what a form may hold beside its file


class UserQuotas:
    """The user `admin` and the operator have none: they see to those of others."""

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
        """None: what is stored is on nobody's account."""
        if principal.is_operator:
            return None
        limits = (self._limit(principal, "bytes"), self._limit(principal, "documents"))
        return Allowance(principal.name, *limits, contact=self._contact)

    def use(self, principal: Principal) -> list[QuotaUse]:
        stored = self._ledger.stored_amount(principal.name)
        counter, now = _counter_of(principal), self._clock()
        asked = self._ledger.attempts([_at(counter, now)], since=now - WINDOW)
        used: dict[QuotaName, int] = {
            "bytes": stored.bytes,
            "documents": stored.documents,
            "requests": sum(each.failures for each in asked.values()),
        }
        return [QuotaUse(name, count, self._limit(principal, name)) for name, count in used.items()]

    def count_request(self, principal: Principal) -> None:
        """Counted before it is answered, in the catalog: many at once, at several servers, pass no limit. Minutes are
        those of the clock. Raises RequestQuotaError."""
        limit = self._limit(principal, "requests")
        if limit is None:
            return
        now = self._clock()
        counter = _at(_counter_of(principal), now)
        # Begun so that what is older than the window of failed logins is forgotten, and nothing younger.
        counted = self._ledger.begin_attempt([counter], at=now, since=now - WINDOW)[counter].failures
        if counted > limit:
            raise RequestQuotaError(
                f"{principal.name} may ask {limit:,} times a minute, and has. Wait for the next minute; for more ask "
                f"{self._contact}.",
                retry_after_s=max(1, 60 - now.second),
            )

    def require_room_for_body(self, principal: Principal, byte_count: int) -> None:
        """Refuses a body that cannot become a document of this user, whichever one it replaces. Raises
        QuotaExceededError. What passes is counted when it is stored."""
        limit = self._limit(principal, "bytes")
        if limit is None:
            return
        stored = self._ledger.stored_amount(principal.name)
        if byte_count - FORM_BYTES > limit - stored.bytes + stored.largest:
            raise QuotaExceededError(
                f"{principal.name} may store {in_bytes(limit)} and holds {in_bytes(stored.bytes)}; this has "
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
