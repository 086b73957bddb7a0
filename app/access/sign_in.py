"""Sign-in by an OpenID provider: who may, which user they are, and the session that begins as after a password."""

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
from app.ports.access import IdentityProvider
from app.types.access import EVERYTHING, AuditEntry, Identity, Role
from app.types.claims import EMAIL, EMAIL_VERIFIED, ClaimRule, Claims, is_any_true
from app.types.documents import utc_now

if TYPE_CHECKING:  # it brings in SQL
    from app.catalog import SqlAccess

BY = "openid"
AT_ONCE = 12  # requests that wait for the provider; each holds a thread, and more would keep others from coming in
_PURPOSE = b"gircse sign-in by openid"


@dataclass(frozen=True, slots=True)
class SignInRules:
    """`label` names the provider to people. The rest after `allowed` is of new users."""

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
    """`secret` is one that all servers of the installation know: a sign-in may begin at one and end at another."""

    def __init__(
        self,
        provider: IdentityProvider,
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
        """Where the browser goes, and what it keeps until it comes back. Raises ProviderUnavailableError."""
        pending = PendingSignIn.begin(way, now=self._clock())
        with self._slot():
            url = self._provider.authorization_url(state=pending.state, nonce=pending.nonce, verifier=pending.verifier)
        return url, pending.sealed(self._key)

    def finish(self, kept: str, answer: Mapping[str, str], *, address: str, browser: str) -> tuple[str, str]:
        """The token of a new session, and where its person wanted to go. `answer` is what the browser came back with.

        Raises UntrustedSignInError and ProviderUnavailableError, which are for the log; ForbiddenError and
        ConflictError, which say why this person does not come in; ThrottledError.
        """
        if not kept:
            raise UntrustedSignInError(
                "the browser brought no cookie: it takes none, or began under another address than GIRCSE_PUBLIC_URL"
            )
        pending = opened(kept, self._key, now=self._clock())
        if not hmac.compare_digest(pending.state.encode(), answer.get("state", "").encode("utf-8", "replace")):
            raise UntrustedSignInError("the answer is of another sign-in (state)")
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
        """What counts as a failed attempt is an answer that does not hold, not a provider that is away."""
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
            raise ForbiddenError(f"Your account at {label} may not sign in here. Ask an admin of this server.")
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
                f"No user here is connected with your account at {self.label}. An admin connects one: {connect}"
            )
        name, role = self._name_of(claims), self._rules.role_of(claims)
        try:
            self._accounts.add_user(name, role=role, collections=self._rules.collections, identity=identity)
        except InputError:
            raise ForbiddenError(
                f"{name[:80]!r}, as {self.label} names you, cannot name a user here: 1 to 63 of a-z, 0-9 and . _ @ - "
                f"can. An admin adds a user and connects it with you: {connect}"
            ) from None
        except ConflictError:
            if (there := self._ledger.user_of(identity)) is not None:
                return there  # two requests of one person at once
            raise ConflictError(
                f"There is a user {name} already, who has not come in by {self.label} before. If that is you, an admin "
                f"connects both: {connect.replace('NAME', name)}"
            ) from None
        self._note("user.added", name, name, {"role": role.label, "by": BY, "subject": identity.subject})
        return name

    def _name_of(self, claims: Claims) -> str:
        claim, label = self._rules.name_claim, self.label
        name = claims.get(claim)
        if not isinstance(name, str) or not name:
            raise ForbiddenError(f"{label} does not say what to call you ({claim}). Ask an admin of this server.")
        if claim == EMAIL and claims.get(EMAIL_VERIFIED) is not True:
            raise ForbiddenError(f"{label} has not verified your email address, by which users are named here.")
        return name.lower()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            raise ProviderUnavailableError("too many sign-ins wait for the provider at this moment")
        try:
            yield
        finally:
            self._slots.release()

    def _note(self, action: str, actor: str, subject: str, detail: Mapping[str, str]) -> None:
        self._ledger.note(AuditEntry(self._clock(), actor[:100], action, subject, detail))
