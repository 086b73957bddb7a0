"""Switches access control on: the admin secret, and who can log in."""

from __future__ import annotations

from datetime import timedelta

from app.access.accounts import Accounts
from app.access.logins import Logins
from app.access.secret_file import load_admin_secret
from app.services import Services


def open_logins(services: Services) -> Logins | None:
    """None where access control is off."""
    if not services.settings.access_control:
        return None
    accounts = Accounts(services.catalog, admin_secret=load_admin_secret(services.settings).secret)
    accounts.ensure_admin()
    return Logins(
        accounts,
        services.catalog,
        lifetime=timedelta(hours=services.settings.session_hours),
        idle=services.settings.session_idle,
    )
