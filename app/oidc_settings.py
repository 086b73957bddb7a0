"""Settings of sign-in by an OpenID provider (OpenID Connect)."""

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
_RULES = "Rules are claim=value, separated by commas; `*` in a value matches any characters."


class OidcSettings(BaseSettings):
    """A part of `Settings`. All other fields need `oidc_issuer`, except `public_url`."""

    public_url: str | None = Field(
        default=None,
        description="Address at which people reach this server, such as https://search.example.org; needed for sign-in "
        "by an OpenID provider.",
    )
    oidc_issuer: str | None = Field(
        default=None, description="OpenID provider for sign-in, in addition to passwords; needs the extra [oidc]."
    )
    oidc_client_id: str | None = Field(default=None, description="Client ID of this server at the provider.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Client secret from the provider. Without one: a public client, with PKCE only."
    )
    oidc_scopes: str = Field(
        default="openid profile email",
        description="Scopes to request, separated by spaces; `openid` must be one of them.",
    )
    oidc_label: str = Field(
        default="OpenID Connect", description="Name of the provider on the button: `Sign in with …`.", max_length=40
    )
    oidc_allowed: str = Field(
        default="",
        description=f"Who may sign in: people who match one of these rules, or `*` for everybody. {_RULES}",
    )
    oidc_create_users: bool = Field(
        default=True,
        description="Creates a user at a person's first sign-in; off: admins connect users (`gircse users connect`).",
    )
    oidc_name_claim: str = Field(
        default="preferred_username", min_length=1, description="Claim with the name of a new user."
    )
    oidc_role: RoleName = Field(
        default=RoleName.READER, description="Role of new users who match none of the rules below."
    )
    oidc_editors: str = Field(default="", description="New users who match one of these rules become editors.")
    oidc_admins: str = Field(default="", description="New users who match one of these rules become admins.")
    oidc_collections: str = Field(
        default="*",
        description="Collections of new users: names separated by commas, or patterns with *, such as team-*.",
    )

    @field_validator("public_url")
    @classmethod
    def _is_a_root(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not is_confidential(url) or url.count("/") > (3 if url.endswith("/") else 2) or set("?#") & set(url):
            raise ValueError("give https:// and a host without a path, such as https://search.example.org")
        return url.rstrip("/")

    @field_validator("oidc_issuer")
    @classmethod
    def _is_an_issuer(cls, url: str | None) -> str | None:
        if url is not None and (not is_confidential(url) or set("?#") & set(url)):
            raise ValueError(
                "give the issuer exactly as the provider publishes it, such as https://login.example.org/realms/staff"
            )
        return url

    @field_validator("oidc_scopes")
    @classmethod
    def _has_openid(cls, scopes: str) -> str:
        parts = scopes.split()
        if "openid" not in parts or not all(map(_SCOPE.fullmatch, parts)):
            raise ValueError("separate scopes by spaces and include openid, such as 'openid profile email'")
        return " ".join(parts)

    @field_validator("oidc_label")
    @classmethod
    def _can_be_read(cls, label: str) -> str:
        if not label.strip() or not label.isprintable():
            raise ValueError("give a name of printable characters, such as Keycloak")
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
    """Contradictions between these settings."""
    given = sorted(
        f"GIRCSE_{name.upper()}"
        for name, field in OidcSettings.model_fields.items()
        if name.startswith(PREFIX) and getattr(settings, name) != field.default
    )
    if settings.oidc_issuer is None:
        return [f"{', '.join(given)} without GIRCSE_OIDC_ISSUER; set both or neither"] if given else []
    errors = []
    if not has_access_control:
        errors.append("GIRCSE_OIDC_ISSUER needs GIRCSE_ACCESS_CONTROL=true: without it there is no sign-in")
    if settings.public_url is None:
        errors.append(
            "GIRCSE_OIDC_ISSUER needs GIRCSE_PUBLIC_URL, such as https://search.example.org; at the provider, register "
            f"this address with {CALLBACK} as the redirect URL"
        )
    if not settings.oidc_client_id:
        errors.append("GIRCSE_OIDC_ISSUER needs GIRCSE_OIDC_CLIENT_ID, the client ID from the provider")
    if not settings.oidc_allowed.strip():
        errors.append(
            "GIRCSE_OIDC_ISSUER needs GIRCSE_OIDC_ALLOWED, who may sign in: rules such as groups=search-users or "
            "email=*@example.org, or * for all users of the provider"
        )
    if _has_everybody(settings.oidc_editors) or _has_everybody(settings.oidc_admins):
        errors.append("GIRCSE_OIDC_EDITORS and GIRCSE_OIDC_ADMINS take rules; for everybody set GIRCSE_OIDC_ROLE")
    return errors


def _has_everybody(rules: str) -> bool:
    return ClaimRule("sub", "*") in claim_rules(rules)
