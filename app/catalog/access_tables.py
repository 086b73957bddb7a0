"""The tables of access control."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.tables import Table
from app.types.access import ApiKey, AuditEntry, Role, Scope, User, WebSession
from app.types.quotas import Quotas


class UserRow(Table):
    __tablename__ = "user_account"  # `user` is a reserved word in SQL

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
    collections: Mapped[list[str]]
    password_hash: Mapped[str | None]
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]
    quota_bytes: Mapped[int | None] = mapped_column(BigInteger)
    quota_documents: Mapped[int | None] = mapped_column(BigInteger)
    quota_requests: Mapped[int | None] = mapped_column(BigInteger)

    def as_user(self) -> User:
        return User(
            self.name,
            Role[self.role.upper()],
            self.created_at,
            tuple(self.collections),
            self.password_hash,
            self.disabled_at,
            Quotas(self.quota_bytes, self.quota_documents, self.quota_requests),
        )


class ApiKeyRow(Table):
    __tablename__ = "api_key"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("user_account.name", ondelete="CASCADE"), index=True)
    label: Mapped[str]
    secret_hash: Mapped[str]
    role: Mapped[str] = mapped_column(String(16))
    collections: Mapped[list[str]]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    scopes: Mapped[list[str]] = mapped_column(server_default="[]")

    def as_key(self) -> ApiKey:
        return ApiKey(
            self.id,
            self.user,
            self.label,
            self.secret_hash,
            Role[self.role.upper()],
            self.created_at,
            tuple(self.collections),
            self.expires_at,
            self.revoked_at,
            tuple(map(Scope, self.scopes)),
        )


class IdentityRow(Table):
    """Links a user to the identity that an OpenID provider reports."""

    __tablename__ = "user_identity"

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("user_account.name", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]


class WebSessionRow(Table):
    __tablename__ = "web_session"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("user_account.name", ondelete="CASCADE"), index=True)
    credential: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    id: Mapped[str] = mapped_column(String(36), index=True)
    used_at: Mapped[datetime]
    address: Mapped[str]
    browser: Mapped[str]

    def as_session(self) -> WebSession:
        return WebSession(
            self.token_hash,
            self.user,
            self.credential,
            self.created_at,
            self.expires_at,
            self.id,
            self.used_at,
            self.address,
            self.browser,
        )


class AttemptRow(Table):
    __tablename__ = "login_attempt"

    counter: Mapped[str] = mapped_column(String(100), primary_key=True)
    began_at: Mapped[datetime] = mapped_column(index=True)
    failures: Mapped[int]


class AuditRow(Table):
    __tablename__ = "audit"
    __table_args__ = (Index("ix_audit_action_at", "action", "at"),)

    # SQLite autoincrements only INTEGER columns.
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    at: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    detail: Mapped[dict[str, Any]]

    def as_entry(self) -> AuditEntry:
        return AuditEntry(self.at, self.actor, self.action, self.subject, self.detail)
