"""Storage quotas, checked in the transaction that stores, so that concurrent uploads cannot exceed a quota."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.catalog.tables import DocumentRow
from app.errors import QuotaExceededError
from app.types.documents import NewDocument
from app.types.quotas import Allowance, StoredAmount, in_bytes

_LOCK_SPACE = 4712  # namespace of these advisory locks


def require_room(session: Session, documents: Sequence[NewDocument]) -> None:
    """Call at the end of the transaction that stores the documents. On PostgreSQL, transactions of one user wait for
    each other here; SQLite has one writer. Raises QuotaExceededError.
    """
    allowances = {new.allowance.user: new.allowance for new in documents if new.allowance is not None}
    for user, allowance in sorted(allowances.items()):
        if allowance.max_bytes is None and allowance.max_documents is None:
            continue
        if session.get_bind().dialect.name == "postgresql":
            session.execute(select(func.pg_advisory_xact_lock(_LOCK_SPACE, func.hashtext(user))))
        _check(allowance, stored_amount(session, user))


def _check(allowance: Allowance, with_these: StoredAmount) -> None:
    user = allowance.user
    ask = f"Delete documents, or ask {allowance.contact}."
    if allowance.max_documents is not None and with_these.documents > allowance.max_documents:
        raise QuotaExceededError(
            f"{user} may store {allowance.max_documents:,} documents; this one would exceed that. {ask}"
        )
    if allowance.max_bytes is not None and with_these.bytes > allowance.max_bytes:
        raise QuotaExceededError(
            f"{user} may store {in_bytes(allowance.max_bytes)}; this would make it {in_bytes(with_these.bytes)}. {ask}"
        )


def stored_amount(session: Session, user: str) -> StoredAmount:
    of_user = select(
        func.coalesce(func.sum(DocumentRow.byte_count), 0),
        func.count(),
        func.coalesce(func.max(DocumentRow.byte_count), 0),
    ).where(DocumentRow.added_by == user)
    total, count, largest = session.execute(of_user).one()
    return StoredAmount(int(total), count, int(largest))
