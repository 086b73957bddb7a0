"""Users, API keys and the audit log over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.access.authorized_accounts import AuthorizedAccounts
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

    @routes.get("/me/usage", response_model=list[QuotaUseAnswer])
    def show_own_usage() -> list[QuotaUse]:
        """How much you store and have asked in this minute, and how much you may."""
        return accounts.quota_use()

    @routes.post("/me/password", status_code=204)
    def change_own_password(new: NewPassword) -> None:
        """Changes your password, which ends all of your sessions."""
        accounts.change_own_password(new.current, new.new)

    _add_user_routes(routes, accounts)
    _add_key_routes(routes, accounts)
    _add_session_routes(routes, accounts)

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

    @routes.get("/users/{name}/usage", response_model=list[QuotaUseAnswer])
    def show_usage(name: str) -> list[QuotaUse]:
        """How much a user stores and has asked in this minute, and how much they may."""
        accounts.user(name)  # for admins
        return accounts.quota_use(name)

    @routes.patch("/users/{name}", response_model=UserAnswer)
    def change_user(name: str, change: UserChange) -> UserAnswer:
        """Changes what a user may do; what is left out stays."""
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
        """As whom a user signs in by an OpenID provider."""
        accounts.user(name)  # for admins
        identities = page.of(accounts.identities().get(name, []))
        return [UserIdentity(issuer=each.issuer, subject=each.subject) for each in identities]

    @routes.post("/users/{name}/identities", status_code=204)
    def connect_user(name: str, identity: UserIdentity) -> None:
        """Lets somebody whom an OpenID provider knows sign in as this user."""
        accounts.connect_user(name, Identity(identity.issuer, identity.subject))

    @routes.delete("/users/{name}/identities", status_code=204)
    def disconnect_user(name: str) -> None:
        """Ends all sign-ins by a provider as this user, and the user's sessions."""
        accounts.disconnect_user(name)

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


def _add_session_routes(routes: APIRouter, accounts: AuthorizedAccounts) -> None:
    @routes.get("/sessions", response_model=list[SessionAnswer], responses=PAGE_HEADERS)
    def list_sessions(page: Page, user: str | None = None) -> list[SessionAnswer]:
        """Where you are logged in; for admins where all are who may do no more than they, or `user` alone.

        A key without the scope `access` is shown none.
        """
        current = accounts.me().session_id
        return [SessionAnswer.of(session, current=current) for session in page.of(accounts.sessions(user))]

    @routes.delete("/sessions/{session_id}", status_code=204)
    def end_session(session_id: str) -> None:
        """Logs out a session that you are shown in the list, at once."""
        accounts.end_session(session_id)

    @routes.delete("/sessions", response_model=EndedSessions)
    def end_other_sessions(user: str | None = None) -> EndedSessions:
        """Logs you out everywhere but here; admins name another `user`, who is then logged out everywhere."""
        return EndedSessions(ended=accounts.end_other_sessions(user))
