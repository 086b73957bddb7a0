"""Sets up access control from the settings: the admin secret, logins by password, and sign-in by an OpenID provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from app.access.accounts import Accounts, check_collections
from app.access.logins import Logins
from app.access.secret_file import load_admin_secret
from app.access.sign_in import SignIn, SignInRules
from app.errors import InputError
from app.services import Services
from app.settings import Settings
from app.types.claims import claim_rules

if TYPE_CHECKING:
    from app.openid import OpenIdProvider


@dataclass(frozen=True, slots=True)
class LoginMethods:
    """How users log in: by password, or at an OpenID provider. Both are None if access control is off."""

    logins: Logins | None = None
    sign_in: SignIn | None = None


@contextmanager
def open_login_methods(services: Services) -> Iterator[LoginMethods]:
    settings = services.settings
    if not settings.access_control:
        yield LoginMethods()
        return
    secret = load_admin_secret(settings).secret
    accounts = Accounts(services.catalog.access, admin_secret=secret)
    accounts.ensure_admin()
    logins = Logins(
        accounts, services.catalog.access, lifetime=timedelta(hours=settings.session_hours), idle=settings.session_idle
    )
    if settings.oidc_issuer is None:
        yield LoginMethods(logins)
        return
    with closing(provider_of(settings)) as provider:
        yield LoginMethods(
            logins,
            SignIn(
                provider,
                rules_of(settings),
                logins=logins,
                accounts=accounts,
                ledger=services.catalog.access,
                secret=secret,
            ),
        )


def rules_of(settings: Settings) -> SignInRules:
    """The rules of the settings for sign-in by OpenID. Raises InputError."""
    named = filter(None, (each.strip() for each in settings.oidc_collections.split(",")))
    try:
        collections = check_collections(named)
    except InputError as error:
        raise InputError(f"GIRCSE_OIDC_COLLECTIONS: {error}") from None
    return SignInRules(
        label=settings.oidc_label,
        allowed=claim_rules(settings.oidc_allowed),
        creates_users=settings.oidc_create_users,
        name_claim=settings.oidc_name_claim,
        role=settings.oidc_role.role,
        editors=claim_rules(settings.oidc_editors),
        admins=claim_rules(settings.oidc_admins),
        collections=collections,
    )


def provider_of(settings: Settings) -> OpenIdProvider:
    """A client of the OpenID provider of the settings. Raises InputError if its library is not installed."""
    try:
        from app.openid import OpenIdProvider
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "joserfc":
            raise
        raise InputError("GIRCSE_OIDC_ISSUER needs the package joserfc: pip install 'gircse-search[oidc]'") from None
    secret = settings.oidc_client_secret
    return OpenIdProvider(
        settings.oidc_issuer or "",
        client_id=settings.oidc_client_id or "",
        client_secret=None if secret is None else secret.get_secret_value(),
        scopes=settings.oidc_scopes,
        redirect_url=settings.oidc_redirect_url,
    )
