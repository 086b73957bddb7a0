"""HTTP bodies for users, API keys, sessions, quotas and the audit log."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from app.access.accounts import MAX_PASSWORD_CHARACTERS, MAX_PATTERNS
from app.api.base_schemas import RequestBody
from app.types.access import MIN_PASSWORD_CHARACTERS, ApiKey, RoleName, Scope, User, WebSession
from app.types.quotas import UNLIMITED, QuotaName, Quotas

COLLECTIONS = "Names of collections. * matches any characters; * alone matches all collections."
SCOPES = (
    "Permissions that a key has only if it was created with them. `access`: manage users and keys, within the limits "
    "of the key's user."
)
AS_YOURS = "No more than your own. Default: the same as yours."


# Only documents the limits: `Accounts` checks them, with messages that say what to do.
Password = Annotated[
    str, Field(json_schema_extra={"minLength": MIN_PASSWORD_CHARACTERS, "maxLength": MAX_PASSWORD_CHARACTERS})
]
Patterns = Annotated[list[str], Field(json_schema_extra={"maxItems": MAX_PATTERNS})]


class NewUser(RequestBody):
    name: str = Field(examples=["anna"])
    role: RoleName = RoleName.READER
    collections: Patterns | None = Field(default=None, description=f"{COLLECTIONS} {AS_YOURS}")
    password: Password | None = Field(default=None, description="Default: none; the user can only use API keys.")


Limit = Annotated[int, Field(ge=0, le=2**53)] | Literal["unlimited", "default"]


class QuotaChange(RequestBody):
    """New limits. An omitted field keeps its value; `default` is the value from the settings."""

    bytes: Limit | None = None
    documents: Limit | None = None
    requests: Limit | None = Field(default=None, description="Requests per minute.")

    def applied_to(self, quotas: Quotas) -> Quotas:
        words = {"unlimited": UNLIMITED, "default": None}
        given = self.model_dump(exclude_none=True)
        return replace(quotas, **{name: words.get(limit, limit) for name, limit in given.items()})


class QuotaAnswer(BaseModel):
    """The limits that an admin set for this user; `default` is the value from the settings."""

    bytes: Limit
    documents: Limit
    requests: Limit

    @classmethod
    def of(cls, quotas: Quotas) -> QuotaAnswer:
        words = {UNLIMITED: "unlimited", None: "default"}
        return cls(**{name: words.get(limit, limit) for name, limit in asdict(quotas).items()})


class UserIdentity(RequestBody):
    issuer: str = Field(examples=["https://login.example.org/realms/staff"], max_length=1_000)
    subject: str = Field(
        examples=["248289761001"], max_length=255, description="The provider's id of the person: the claim `sub`."
    )


class QuotaUseAnswer(BaseModel):
    quota: QuotaName
    used: int
    limit: int | None = Field(description="null: no limit.")


class UserChange(RequestBody):
    quotas: QuotaChange | None = None
    role: RoleName | None = None
    collections: Patterns | None = Field(default=None, description=COLLECTIONS)
    is_disabled: bool | None = Field(default=None, description="true: ends all sessions and rejects all keys at once.")
    password: Password | None = None


class NewPassword(RequestBody):
    current: str
    new: Password


class NewKey(RequestBody):
    user: str | None = Field(default=None, description="Owner of the key, for admins. Default: you.")
    label: str = Field(default="", max_length=80, examples=["nightly export"])
    role: RoleName | None = Field(default=None, description="At most the role of its user. Default: that role.")
    collections: Patterns | None = Field(default=None, description=f"{COLLECTIONS} {AS_YOURS}")
    expires_at: AwareDatetime | None = Field(default=None, description="With a time zone. Default: never.")
    scopes: list[Scope] = Field(default=[], description=SCOPES)


class MeAnswer(BaseModel):
    name: str
    role: RoleName
    collections: list[str]
    key_id: str | None
    scopes: list[Scope] = Field(description="A session has all scopes.")
    access_control: bool


class UserAnswer(BaseModel):
    name: str
    role: RoleName
    collections: list[str]
    has_password: bool
    is_disabled: bool
    created_at: datetime
    quotas: QuotaAnswer

    @classmethod
    def of(cls, user: User) -> UserAnswer:
        return cls(
            name=user.name,
            role=RoleName(user.role.label),
            collections=list(user.collections),
            has_password=user.password_hash is not None,
            is_disabled=user.disabled_at is not None,
            created_at=user.created_at,
            quotas=QuotaAnswer.of(user.quotas),
        )


class KeyAnswer(BaseModel):
    id: str
    user: str
    label: str
    role: RoleName
    collections: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    scopes: list[Scope] = Field(description=SCOPES)

    @classmethod
    def of(cls, key: ApiKey, **more: Any) -> Any:
        return cls(
            id=key.id,
            user=key.user,
            label=key.label,
            role=RoleName(key.role.label),
            collections=list(key.collections),
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            scopes=list(key.scopes),
            **more,
        )


class NewKeyAnswer(KeyAnswer):
    secret: str = Field(description="Send it as `Authorization: Bearer …`. It is shown only once.")


class SessionAnswer(BaseModel):
    id: str
    user: str
    created_at: datetime
    used_at: datetime = Field(description="Last use, to the minute.")
    expires_at: datetime
    address: str = Field(description="Client address at login. Empty for sessions of earlier releases.")
    browser: str = Field(examples=["Firefox on Linux"])
    is_current: bool = Field(description="Whether this request uses this session.")

    @classmethod
    def of(cls, session: WebSession, *, current: str | None) -> SessionAnswer:
        return cls(
            id=session.id,
            user=session.user,
            created_at=session.created_at,
            used_at=session.used_at,
            expires_at=session.expires_at,
            address=session.address,
            browser=session.browser,
            is_current=session.id == current,
        )


class EndedSessions(BaseModel):
    ended: int


class AuditAnswer(BaseModel):
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, str]
