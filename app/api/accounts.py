"""Users, API keys and the audit log over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, Field

from app.access.authorized_accounts import AuthorizedAccounts
from app.api.base_schemas import Posted
from app.api.paging import PAGE_HEADERS, Limit, Offset, Page
from app.types.access import ApiKey, AuditEntry, RoleName, Scope, User

COLLECTIONS = "Names, in which * stands for any characters; * alone: all."
SCOPES = "What the key may do only if it was made for it. `access`: see to users and keys, as far as its user may."
AS_YOURS = "At most yours, which they are when left out."


class NewUser(Posted):
    name: str = Field(examples=["anna"])
    role: RoleName = RoleName.READER
    collections: list[str] | None = Field(default=None, description=f"{COLLECTIONS} {AS_YOURS}")
    password: str | None = Field(default=None, description="Left out: this user has API keys only.")


class UserChange(Posted):
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

    @classmethod
    def of(cls, user: User) -> UserAnswer:
        return cls(
            name=user.name,
            role=RoleName(user.role.label),
            collections=list(user.collections),
            has_password=user.password_hash is not None,
            is_disabled=user.disabled_at is not None,
            created_at=user.created_at,
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


class AuditAnswer(BaseModel):
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, str]


def account_routes(accounts: AuthorizedAccounts, *, access_control: bool) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["access"])

    @routes.get("/me", response_model=MeAnswer)
    def show_me() -> MeAnswer:
        """Who you are to this server, and what you may do."""
        me = accounts.me()
        return MeAnswer(
            name=me.name,
            role=RoleName(me.role.label),
            collections=list(me.collections if "*" in me.key_collections else me.key_collections),
            key_id=me.key_id,
            scopes=list(filter(me.has_scope, Scope)),
            access_control=access_control,
        )

    @routes.post("/me/password", status_code=204)
    def change_own_password(new: NewPassword) -> None:
        """Changes your password, which ends all of your sessions."""
        accounts.change_own_password(new.current, new.new)

    _add_user_routes(routes, accounts)
    _add_key_routes(routes, accounts)

    @routes.get("/audit", response_model=list[AuditAnswer])
    def list_audit(
        action: Annotated[list[str] | None, Query(description="Only these; may be repeated.")] = None,
        actor: str | None = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> list[AuditEntry]:
        """Who did what: logins, keys, users, and what was deleted; the newest first."""
        return accounts.audit_entries(actions=action or (), actor=actor, limit=limit, offset=offset)

    return routes


def _add_user_routes(routes: APIRouter, accounts: AuthorizedAccounts) -> None:
    @routes.get("/users", response_model=list[UserAnswer], responses=PAGE_HEADERS)
    def list_users(page: Page) -> list[UserAnswer]:
        """All users who may do no more than you, and what each may do."""
        return [UserAnswer.of(user) for user in page.of(accounts.users())]

    @routes.post("/users", status_code=201, response_model=UserAnswer)
    def add_user(new: NewUser) -> UserAnswer:
        """Adds a user, who logs in by password, if one is given, or by API keys."""
        user = accounts.add_user(new.name, role=new.role.role, collections=new.collections, password=new.password)
        return UserAnswer.of(user)

    @routes.get("/users/{name}", response_model=UserAnswer)
    def show_user(name: str) -> UserAnswer:
        """What a user may do."""
        return UserAnswer.of(accounts.user(name))

    @routes.patch("/users/{name}", response_model=UserAnswer)
    def change_user(name: str, change: UserChange) -> UserAnswer:
        """Changes what a user may do; what is left out stays."""
        user = accounts.change_user(
            name,
            role=change.role.role if change.role else None,
            collections=change.collections,
            is_disabled=change.is_disabled,
            password=change.password,
        )
        return UserAnswer.of(user)

    @routes.delete("/users/{name}", status_code=204)
    def remove_user(name: str) -> None:
        """Removes a user with all keys and sessions; documents stay."""
        accounts.remove_user(name)


def _add_key_routes(routes: APIRouter, accounts: AuthorizedAccounts) -> None:
    @routes.get("/keys", response_model=list[KeyAnswer], responses=PAGE_HEADERS)
    def list_keys(page: Page) -> list[KeyAnswer]:
        """Your API keys; for admins those of all who may do no more than they. A key without the scope `access` is
        shown itself alone."""
        return [KeyAnswer.of(key) for key in page.of(accounts.api_keys())]

    @routes.post("/keys", status_code=201, response_model=NewKeyAnswer)
    def add_key(new: NewKey) -> NewKeyAnswer:
        """Makes an API key of your own; admins make them for others, too. Its secret is told only now.

        It needs a session, or a key with the scope `access`, and gives nothing that you do not have.
        """
        key, secret = accounts.add_key(
            new.user,
            label=new.label,
            role=new.role.role if new.role else None,
            collections=new.collections,
            expires_at=new.expires_at,
            scopes=new.scopes,
        )
        return NewKeyAnswer.of(key, secret=secret)

    @routes.delete("/keys/{key_id}", status_code=204)
    def revoke_key(key_id: str) -> None:
        """Revokes a key that you are shown in the list, at once and for ever."""
        accounts.revoke_key(key_id)
