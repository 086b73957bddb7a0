"""Users, API keys and the audit log over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.access.account_service import AccountService
from app.api.account_schemas import (
    AuditAnswer,
    EndedSessions,
    KeyAnswer,
    MeAnswer,
    NewKey,
    NewKeyAnswer,
    NewPassword,
    NewUser,
    QuotaUseAnswer,
    SessionAnswer,
    UserAnswer,
    UserChange,
    UserIdentity,
)
from app.api.paging import PAGE_HEADERS, Limit, Offset, Page
from app.types.access import AuditEntry, Identity, RoleName, Scope
from app.types.quotas import QuotaUse


def account_routes(accounts: AccountService, *, access_control: bool) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["access"])

    @routes.get("/me", response_model=MeAnswer)
    def show_me() -> MeAnswer:
        """Your user name, role, collections and scopes."""
        me = accounts.me()
        return MeAnswer(
            name=me.name,
            role=RoleName(me.role.label),
            collections=list(me.collections if "*" in me.key_collections else me.key_collections),
            key_id=me.key_id,
            scopes=list(filter(me.has_scope, Scope)),
            access_control=access_control,
        )

    @routes.get("/me/usage", response_model=list[QuotaUseAnswer])
    def show_own_usage() -> list[QuotaUse]:
        """Your quotas: bytes and documents stored, requests in this minute, and the limit of each."""
        return accounts.quota_use()

    @routes.post("/me/password", status_code=204)
    def change_own_password(new: NewPassword) -> None:
        """Changes your password and ends all of your sessions."""
        accounts.change_own_password(new.current, new.new)

    _add_user_routes(routes, accounts)
    _add_key_routes(routes, accounts)
    _add_session_routes(routes, accounts)

    @routes.get("/audit", response_model=list[AuditAnswer])
    def list_audit(
        action: Annotated[
            list[str] | None, Query(description="Only entries with these actions. May be repeated.")
        ] = None,
        actor: str | None = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> list[AuditEntry]:
        """The audit log, newest first: logins, changes to keys and users, deletions."""
        return accounts.audit_entries(actions=action or (), actor=actor, limit=limit, offset=offset)

    return routes


def _add_user_routes(routes: APIRouter, accounts: AccountService) -> None:
    @routes.get("/users", response_model=list[UserAnswer], responses=PAGE_HEADERS)
    def list_users(page: Page) -> list[UserAnswer]:
        """Lists users whose rights do not exceed yours, with their rights."""
        return [UserAnswer.of(user) for user in page.of(accounts.users())]

    @routes.post("/users", status_code=201, response_model=UserAnswer)
    def add_user(new: NewUser) -> UserAnswer:
        """Adds a user. Without a password the user can only use API keys."""
        user = accounts.add_user(new.name, role=new.role.role, collections=new.collections, password=new.password)
        return UserAnswer.of(user)

    @routes.get("/users/{name}", response_model=UserAnswer)
    def show_user(name: str) -> UserAnswer:
        """A user and the user's rights."""
        return UserAnswer.of(accounts.user(name))

    @routes.get("/users/{name}/usage", response_model=list[QuotaUseAnswer])
    def show_usage(name: str) -> list[QuotaUse]:
        """A user's quotas: bytes and documents stored, requests in this minute, and the limit of each."""
        accounts.user(name)  # requires the role admin
        return accounts.quota_use(name)

    @routes.patch("/users/{name}", response_model=UserAnswer)
    def change_user(name: str, change: UserChange) -> UserAnswer:
        """Changes a user. Omitted fields keep their values."""
        user = accounts.change_user(
            name,
            role=change.role.role if change.role else None,
            collections=change.collections,
            is_disabled=change.is_disabled,
            password=change.password,
            quotas=change.quotas.applied_to(accounts.user(name).quotas) if change.quotas else None,
        )
        return UserAnswer.of(user)

    @routes.get("/users/{name}/identities", response_model=list[UserIdentity], responses=PAGE_HEADERS)
    def list_identities(name: str, page: Page) -> list[UserIdentity]:
        """OpenID identities with which a user signs in."""
        accounts.user(name)  # requires the role admin
        identities = page.of(accounts.identities().get(name, []))
        return [UserIdentity(issuer=identity.issuer, subject=identity.subject) for identity in identities]

    @routes.post("/users/{name}/identities", status_code=204)
    def connect_user(name: str, identity: UserIdentity) -> None:
        """Lets a person with this OpenID identity sign in as this user."""
        accounts.connect_user(name, Identity(identity.issuer, identity.subject))

    @routes.delete("/users/{name}/identities", status_code=204)
    def disconnect_user(name: str) -> None:
        """Removes all OpenID identities of this user and ends the user's sessions."""
        accounts.disconnect_user(name)

    @routes.delete("/users/{name}", status_code=204)
    def remove_user(name: str) -> None:
        """Removes a user with all keys and sessions. Documents are kept."""
        accounts.remove_user(name)


def _add_key_routes(routes: APIRouter, accounts: AccountService) -> None:
    @routes.get("/keys", response_model=list[KeyAnswer], responses=PAGE_HEADERS)
    def list_keys(page: Page) -> list[KeyAnswer]:
        """Lists your API keys; for admins also the keys of all users whose rights do not exceed theirs.

        A request with a key that lacks the scope `access` gets only that key.
        """
        return [KeyAnswer.of(key) for key in page.of(accounts.api_keys())]

    @routes.post("/keys", status_code=201, response_model=NewKeyAnswer)
    def add_key(new: NewKey) -> NewKeyAnswer:
        """Creates an API key for you, or for another user if you are an admin. The secret is shown only once.

        Requires a session or a key with the scope `access`. The new key cannot have more rights than you.
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
        """Revokes a key of the list of keys, at once and for good."""
        accounts.revoke_key(key_id)


def _add_session_routes(routes: APIRouter, accounts: AccountService) -> None:
    @routes.get("/sessions", response_model=list[SessionAnswer], responses=PAGE_HEADERS)
    def list_sessions(page: Page, user: str | None = None) -> list[SessionAnswer]:
        """Lists your sessions; for admins also those of all users whose rights do not exceed theirs, or only of `user`.

        A request with a key that lacks the scope `access` gets an empty list.
        """
        current = accounts.me().session_id
        return [SessionAnswer.of(session, current=current) for session in page.of(accounts.sessions(user))]

    @routes.delete("/sessions/{session_id}", status_code=204)
    def end_session(session_id: str) -> None:
        """Ends a session of the list of sessions at once."""
        accounts.end_session(session_id)

    @routes.delete("/sessions", response_model=EndedSessions)
    def end_other_sessions(user: str | None = None) -> EndedSessions:
        """Ends all of your sessions except this one. Admins can name another `user`, all of whose sessions end."""
        return EndedSessions(ended=accounts.end_other_sessions(user))
