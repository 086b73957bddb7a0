"""The settings of sign-in by an OpenID provider (OpenID Connect), a part of `Settings`."""

from __future__ import annotations

import re

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from app.types.access import RoleName
from app.types.claims import ClaimRule, claim_rules
from app.types.web_addresses import is_confidential

CALLBACK = "/login/openid/callback"
PREFIX = "oidc_"
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749, 3.3
_RULES = "Rules as claim=value, with commas; `*` in a value stands for any characters."


class OidcSettings(BaseSettings):
    """Nothing is set without an issuer."""

    public_url: str | None = Field(
        default=None, description="How people reach this server, as https://search.example.org; sign-in needs it."
    )
    oidc_issuer: str | None = Field(
        default=None, description="An OpenID provider by which people may sign in, too; extra [oidc]."
    )
    oidc_client_id: str | None = Field(default=None, description="As that provider has named this server.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="What the provider gave with it. Without one: a public client, PKCE alone."
    )
    oidc_scopes: str = Field(
        default="openid profile email", description="What the provider is asked for, with spaces; `openid` is needed."
    )
    oidc_label: str = Field(
        default="OpenID Connect", description="Name of the provider on the button: `Sign in with …`.", max_length=40
    )
    oidc_allowed: str = Field(
        default="", description=f"Who may sign in: whom one of these rules fits, or `*` alone for everybody. {_RULES}"
    )
    oidc_create_users: bool = Field(
        default=True,
        description="Who signs in first becomes a user; off: an admin connects users (`gircse users connect`).",
    )
    oidc_name_claim: str = Field(
        default="preferred_username", min_length=1, description="The claim that a new user is named by."
    )
    oidc_role: RoleName = Field(default=RoleName.READER, description="Of new users whom no rule below fits.")
    oidc_editors: str = Field(default="", description="Whom one of these rules fits is an editor when new.")
    oidc_admins: str = Field(default="", description="Whom one of these rules fits is an admin when new.")
    oidc_collections: str = Field(
        default="*", description="Collections of new users: names with commas, or parts of them with *, as team-*."
    )

    @field_validator("public_url")
    @classmethod
    def _is_a_root(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not is_confidential(url) or url.count("/") > (3 if url.endswith("/") else 2) or set("?#") & set(url):
            raise ValueError("give https:// and a host without a path, as https://search.example.org")
        return url.rstrip("/")

    @field_validator("oidc_issuer")
    @classmethod
    def _is_an_issuer(cls, url: str | None) -> str | None:
        if url is not None and (not is_confidential(url) or set("?#") & set(url)):
            raise ValueError("give the issuer as the provider names it, as https://login.example.org/realms/staff")
        return url

    @field_validator("oidc_scopes")
    @classmethod
    def _has_openid(cls, scopes: str) -> str:
        asked = scopes.split()
        if "openid" not in asked or not all(map(_SCOPE.fullmatch, asked)):
            raise ValueError("write scopes with spaces, openid among them, as 'openid profile email'")
        return " ".join(asked)

    @field_validator("oidc_label")
    @classmethod
    def _can_be_read(cls, label: str) -> str:
        if not label.strip() or not label.isprintable():
            raise ValueError("give a name of printable characters, as Keycloak")
        return label.strip()

    @field_validator("oidc_allowed", "oidc_editors", "oidc_admins")
    @classmethod
    def _are_rules(cls, rules: str) -> str:
        claim_rules(rules)
        return rules

    @property
    def oidc_redirect_url(self) -> str:
        return f"{self.public_url}{CALLBACK}"


def oidc_errors(settings: OidcSettings, *, has_access_control: bool) -> list[str]:
    """What contradicts itself."""
    given = sorted(
        f"GIRCSE_{name.upper()}"
        for name, field in OidcSettings.model_fields.items()
        if name.startswith(PREFIX) and getattr(settings, name) != field.default
    )
    if settings.oidc_issuer is None:
        return [f"{', '.join(given)} without GIRCSE_OIDC_ISSUER; set both or neither"] if given else []
    errors = []
    if not has_access_control:
        errors.append("GIRCSE_OIDC_ISSUER needs GIRCSE_ACCESS_CONTROL=true: without it nobody signs in")
    if settings.public_url is None:
        errors.append(
            "GIRCSE_OIDC_ISSUER needs GIRCSE_PUBLIC_URL, as https://search.example.org; register that with "
            f"{CALLBACK} as the redirect URL at the provider"
        )
    if not settings.oidc_client_id:
        errors.append("GIRCSE_OIDC_ISSUER needs GIRCSE_OIDC_CLIENT_ID, which the provider gives")
    if not settings.oidc_allowed.strip():
        errors.append(
            "GIRCSE_OIDC_ISSUER needs GIRCSE_OIDC_ALLOWED, who may sign in: rules as groups=search-users or "
            "email=*@example.org, or * for all whom the provider knows"
        )
    if _everybody_of(settings.oidc_editors) or _everybody_of(settings.oidc_admins):
        errors.append("GIRCSE_OIDC_EDITORS and GIRCSE_OIDC_ADMINS take rules; for everybody set GIRCSE_OIDC_ROLE")
    return errors


def _everybody_of(rules: str) -> bool:
    return ClaimRule("sub", "*") in claim_rules(rules)
