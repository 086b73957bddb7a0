"""What a principal may give to others: never more than it has itself, now or later. Knows no database."""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import ForbiddenError
from app.types.access import ApiKey, Principal, Role, User, matches


def require_grant(grantor: Principal, role: Role, collections: Iterable[str]) -> None:
    """Raises ForbiddenError where the role or a pattern reaches further than the grantor's own."""
    if role > grantor.role:
        raise ForbiddenError(f"Nobody gives more than they have: you are {grantor.role.label}, not {role.label}.")
    for pattern in collections:
        if not grantor.covers(pattern):
            own = ", ".join(own_collections(grantor)) or "none"
            raise ForbiddenError(f"Nobody gives more than they have: your collections are {own}, not {pattern!r}.")


def own_collections(grantor: Principal) -> tuple[str, ...]:
    """What is given where no collections are named. Of two lists that overlap in part, what both cover."""
    return tuple(
        dict.fromkeys(each for each in (*grantor.key_collections, *grantor.collections) if grantor.covers(each))
    )


def is_user_within(grantor: Principal, user: User) -> bool:
    """Whether this user may do no more than the grantor, who else could come in as them by a new password."""
    return user.role <= grantor.role and all(map(grantor.covers, user.collections))


def is_key_within(grantor: Principal, key: ApiKey, owner: User) -> bool:
    """A key reaches what both it and its owner cover."""
    if min(key.role, owner.role) > grantor.role:
        return False
    return all(
        _is_covered(owner.collections, limit) or _is_covered(key.collections, limit)
        for limit in (grantor.collections, grantor.key_collections)
    )


def _is_covered(patterns: Iterable[str], limit: tuple[str, ...]) -> bool:
    return all(matches(pattern, limit) for pattern in patterns)
