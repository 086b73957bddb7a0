"""Limits what a principal may grant to others: never more than its own rights, now or later. Needs no database."""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import ForbiddenError
from app.types.access import ApiKey, Principal, Role, User, matches


def require_grant(grantor: Principal, role: Role, collections: Iterable[str]) -> None:
    """Raises ForbiddenError if the role or a pattern exceeds the grantor's own."""
    if role > grantor.role:
        raise ForbiddenError(f"You cannot grant a role above your own ({grantor.role.label}).")
    for pattern in collections:
        if not grantor.covers(pattern):
            own = ", ".join(own_collections(grantor)) or "none"
            raise ForbiddenError(f"You cannot grant access to {pattern!r}: your collections are {own}.")


def own_collections(grantor: Principal) -> tuple[str, ...]:
    """Default collections of a grant. If the key's and the user's lists overlap in part, only patterns covered by
    both.
    """
    return tuple(dict.fromkeys(filter(grantor.covers, (*grantor.key_collections, *grantor.collections))))


def is_user_within(grantor: Principal, user: User) -> bool:
    """True if the user has no more rights than the grantor. Otherwise the grantor could set the user's password and
    log in with more rights.
    """
    return user.role <= grantor.role and all(map(grantor.covers, user.collections))


def is_key_within(grantor: Principal, key: ApiKey, owner: User) -> bool:
    """A key covers only collections that its owner covers, too."""
    if min(key.role, owner.role) > grantor.role:
        return False
    return all(
        _is_covered(owner.collections, limit) or _is_covered(key.collections, limit)
        for limit in (grantor.collections, grantor.key_collections)
    )


def _is_covered(patterns: Iterable[str], limit: tuple[str, ...]) -> bool:
    return all(matches(pattern, limit) for pattern in patterns)
