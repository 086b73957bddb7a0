"""The contents of the login page and of the account page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.types.access import ApiKey, Principal, WebSession
from app.types.quotas import QuotaUse

KEY_DAYS = (30, 90, 365)
"""Lifetimes that the page offers for a new API key."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """`new_key`: the text of the key just created, shown only once. `error`: why the last form was rejected."""

    me: Principal
    sessions: Sequence[WebSession]
    quotas: Sequence[QuotaUse]
    keys: Sequence[ApiKey] = ()
    has_password: bool = False
    new_key: str = ""
    error: str = ""


class DrawLogin(Protocol):
    def __call__(self, next_path: str, error: str, *, name: str = "", is_changed: bool = False) -> str:
        """The HTML of the login page.

        Args:
            next_path: the address to open after login.
            error: a message, or "".
            name: prefilled, so that after a wrong password only the password is entered again.
            is_changed: the user has just changed the password.
        """
        ...
