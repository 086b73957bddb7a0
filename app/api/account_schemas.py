"""What users, API keys and the audit log look like over HTTP."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from app.api.base_schemas import Posted
from app.types.access import ApiKey, RoleName, Scope, User, WebSession
from app.types.quotas import UNLIMITED, QuotaName, Quotas

COLLECTIONS = "Names, in which * stands for any characters; * alone: all."
SCOPES = "What the key may do only if it was made for it. `access`: see to users and keys, as far as its user may."
AS_YOURS = "At most yours, which they are when left out."


class NewUser(Posted):
    name: str = Field(examples=["anna"])
    role: RoleName = RoleName.READER
    collections: list[str] | None = Field(default=None, description=f"{COLLECTIONS} {AS_YOURS}")
    password: str | None = Field(default=None, description="Left out: this user has API keys only.")


Limit = Annotated[int, Field(ge=0, le=2**53)] | Literal["unlimited", "default"]


class QuotaChange(Posted):
    """What is left out stays; `default` is what the settings say."""

    bytes: Limit | None = None
    documents: Limit | None = None
    requests: Limit | None = Field(default=None, description="A minute.")

    def applied_to(self, quotas: Quotas) -> Quotas:
        words = {"unlimited": UNLIMITED, "default": None}
        given = self.model_dump(exclude_none=True)
        return replace(quotas, **{name: words.get(limit, limit) for name, limit in given.items()})


class QuotaAnswer(BaseModel):
    """What an admin gave this user; `default` is what the settings say."""

    bytes: Limit
    documents: Limit
    requests: Limit

    @classmethod
    def of(cls, quotas: Quotas) -> QuotaAnswer:
        words = {UNLIMITED: "unlimited", None: "default"}
        return cls(**{name: words.get(limit, limit) for name, limit in asdict(quotas).items()})


class UserIdentity(Posted):
    issuer: str = Field(examples=["https://login.example.org/realms/staff"], max_length=1_000)
    subject: str = Field(
        examples=["248289761001"], max_length=255, description="What the provider calls the person: `sub`."
    )


class QuotaUseAnswer(BaseModel):
    quota: QuotaName
    used: int
    limit: int | None = Field(description="null: there is none.")


class UserChange(Posted):
    quotas: QuotaChange | None = None
    role: RoleName | None = None
    collections: list[str] | None = Field(default=None, description=COLLECTIONS)
    is_disabled: bool | None = Field(default=None, description="Sessions end, and keys are refused, at once.")
    password: str | None = None


class NewPassword(Posted):
    current: str
    new: str


class NewKey(Posted):
    user: str | None = Field(default=None, description="Whose, for admins. Left out: your own.")
    label: str = Field(default="", max_length=80, examples=["nightly export"])
    role: RoleName | None = Field(default=None, description="At most that of its user, which it is when left out.")
    collections: list[str] | None = Field(default=None, description=f"{COLLECTIONS} {AS_YOURS}")
    expires_at: AwareDatetime | None = Field(default=None, description="With a time zone. Left out: never.")
    scopes: list[Scope] = Field(default=[], description=SCOPES)


class MeAnswer(BaseModel):
    name: str
    role: RoleName
    collections: list[str]
    key_id: str | None
    scopes: list[Scope] = Field(description="All of them in a session.")
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
    secret: str = Field(description="What to show as `Authorization: Bearer …`. It is told only now.")


class SessionAnswer(BaseModel):
    id: str
    user: str
    created_at: datetime
    used_at: datetime = Field(description="To the minute.")
    expires_at: datetime
    address: str = Field(description="From where it was begun; empty for those of earlier releases.")
    browser: str = Field(examples=["Firefox on Linux"])
    is_current: bool = Field(description="The one that you ask with.")

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
