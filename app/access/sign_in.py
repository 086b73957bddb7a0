"""Sign-in with an OpenID provider: who may sign in, as which user, and the session that follows."""

from __future__ import annotations

import hashlib
import hmac
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from app.access import audit
from app.access.accounts import Accounts
from app.access.logins import FAILED, Logins
from app.access.pending_sign_in import PendingSignIn, opened
from app.access.throttle import Throttle
from app.errors import (
    ConflictError,
    ForbiddenError,
    GircseError,
    InputError,
    ProviderUnavailableError,
    UntrustedSignInError,
)
from app.types.access import EVERYTHING, AuditEntry, Identity, Role
from app.types.claims import EMAIL, EMAIL_VERIFIED, ClaimRule, Claims, is_any_true
from app.types.documents import utc_now

if TYPE_CHECKING:  # avoids importing SQL and joserfc
    from app.catalog import SqlAccess
    from app.openid.provider import OpenIdProvider

BY = "openid"
AT_ONCE = 12  # concurrent requests to the provider; each holds a thread, so more would block other logins
_PURPOSE = b"gircse sign-in by openid"


@dataclass(frozen=True, slots=True)
class SignInRules:
    """Who may sign in, and with which rights. `label` is the provider's display name. The fields after `allowed` apply
    to new users."""

    label: str
    allowed: tuple[ClaimRule, ...]
    creates_users: bool = True
    name_claim: str = "preferred_username"
    role: Role = Role.READER
    editors: tuple[ClaimRule, ...] = ()
    admins: tuple[ClaimRule, ...] = ()
    collections: tuple[str, ...] = EVERYTHING

    def role_of(self, claims: Claims) -> Role:
        if is_any_true(self.admins, claims):
            return Role.ADMIN
        return max(self.role, Role.EDITOR) if is_any_true(self.editors, claims) else self.role


class SignIn:
    """Signs users in at an OpenID provider. `secret` must be the same on all servers of an installation: a sign-in may
    begin on one and end on another."""

    def __init__(
        self,
        provider: OpenIdProvider,
        rules: SignInRules,
        *,
        logins: Logins,
        accounts: Accounts,
        ledger: SqlAccess,
        secret: str,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.label = rules.label
        self._provider = provider
        self._rules = rules
        self._logins = logins
        self._accounts = accounts
        self._ledger = ledger
        self._key = hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).digest()
        self._clock = clock
        self._throttle = Throttle(BY, ledger, clock=clock)
        self._slots = threading.BoundedSemaphore(AT_ONCE)

    def begin(self, way: str) -> tuple[str, str]:
        """Returns the URL to redirect to and the cookie to keep until the browser returns. Raises
        ProviderUnavailableError.
        """
        pending = PendingSignIn.begin(way, now=self._clock())
        with self._slot():
            url = self._provider.authorization_url(state=pending.state, nonce=pending.nonce, verifier=pending.verifier)
        return url, pending.sealed(self._key)

    def finish(self, kept: str, answer: Mapping[str, str], *, address: str, browser: str) -> tuple[str, str]:
        """Returns the token of a new session and the page that the user wanted. `answer`: the query parameters of the
        redirect back.

        Raises UntrustedSignInError and ProviderUnavailableError, whose messages are for the log; ForbiddenError and
        ConflictError, which tell the user why they cannot sign in; and ThrottledError.
        """
        if not kept:
            raise UntrustedSignInError(
                "the browser sent no cookie: it blocks cookies, or started at another address than GIRCSE_PUBLIC_URL"
            )
        pending = opened(kept, self._key, now=self._clock())
        if not hmac.compare_digest(pending.state.encode(), answer.get("state", "").encode("utf-8", "replace")):
            raise UntrustedSignInError("the answer belongs to another sign-in (state)")
        if "error" in answer:
            raise ForbiddenError(f"{self.label} did not sign you in ({answer['error'][:60]}).")
        claims = self._claims(pending, answer, address)
        identity = Identity(self._provider.issuer, str(claims["sub"]))
        try:
            name = self._user_of(identity, claims)
            return self._logins.begin_session(name, address=address, browser=browser, by=BY), pending.way
        except GircseError as error:
            detail = {"by": BY, "subject": identity.subject, "reason": type(error).__name__}
            self._note(FAILED, str(claims.get(self._rules.name_claim, "")), address, detail)
            raise

    def _claims(self, pending: PendingSignIn, answer: Mapping[str, str], address: str) -> Claims:
        """An invalid answer counts as a failed attempt; an unavailable provider does not."""
        away: ProviderUnavailableError | None = None
        with self._slot(), self._throttle.attempt(address):
            try:
                return self._provider.claims(
                    answer.get("code", ""), issuer=answer.get("iss"), nonce=pending.nonce, verifier=pending.verifier
                )
            except ProviderUnavailableError as error:
                away = error
            except UntrustedSignInError:
                self._note(FAILED, "", address, {"by": BY})
                raise
        raise away

    def _user_of(self, identity: Identity, claims: Claims) -> str:
        rules, label = self._rules, self.label
        if not is_any_true(rules.allowed, claims):
            raise ForbiddenError(
                f"Your account at {label} is not allowed to sign in here. Ask an admin of this server."
            )
        name = self._ledger.user_of(identity)
        if name is None:
            name = self._new_user(identity, claims)
        if self._ledger.user(name).disabled_at is not None:
            raise ForbiddenError(f"The user {name} is disabled here. Ask an admin of this server.")
        return name

    def _new_user(self, identity: Identity, claims: Claims) -> str:
        connect = f"`gircse users connect NAME {shlex.quote(identity.subject)}`"
        if not self._rules.creates_users:
            raise ForbiddenError(
                f"No user here is linked to your account at {self.label}. An admin can link one: {connect}"
            )
        name, role = self._name_of(claims), self._rules.role_of(claims)
        try:
            self._accounts.add_user(name, role=role, collections=self._rules.collections, identity=identity)
        except InputError:
            raise ForbiddenError(
                f"Your name at {self.label}, {name[:80]!r}, is not a valid user name here: it needs 1 to 63 of "
                f"a-z, 0-9 and . _ @ -. An admin can add a user and link it to you: {connect}"
            ) from None
        except ConflictError:
            if (there := self._ledger.user_of(identity)) is not None:
                return there  # two concurrent requests of one person
            raise ConflictError(
                f"The user {name} already exists and has not signed in with {self.label} before. If that is you, an "
                f"admin can link the two: {connect.replace('NAME', name)}"
            ) from None
        detail = {"role": role.label, "by": BY, "subject": identity.subject}
        audit.note_done(self._ledger, [AuditEntry(self._clock(), name, "user.added", name, detail)])
        return name

    def _name_of(self, claims: Claims) -> str:
        claim, label = self._rules.name_claim, self.label
        name = claims.get(claim)
        if not isinstance(name, str) or not name:
            raise ForbiddenError(f"{label} did not send your name ({claim}). Ask an admin of this server.")
        if claim == EMAIL and claims.get(EMAIL_VERIFIED) is not True:
            raise ForbiddenError(f"{label} has not verified your email address, which is the user name here.")
        return name.lower()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            raise ProviderUnavailableError("too many sign-ins are waiting for the provider")
        try:
            yield
        finally:
            self._slots.release()

    def _note(self, action: str, actor: str, subject: str, detail: Mapping[str, str]) -> None:
        self._ledger.note(AuditEntry(self._clock(), actor[:100], action, subject, detail))
