"""Sessions, and login by password or key. Sessions are in the catalog, which all processes share."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app.access import audit
from app.access.accounts import Accounts
from app.access.hashing import digest, is_same
from app.access.throttle import Throttle
from app.errors import CatalogUnavailableError, LoginRequiredError, UnknownUserError
from app.types.access import AuditEntry, Principal, WebSession
from app.types.documents import utc_now
from app.types.patience import hardly_waiting

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlAccess

NOTED_EVERY = timedelta(minutes=1)  # record the use of a session at most this often
KNOWN_FOR = timedelta(days=30)  # how long an address counts as known after a login
LOGGED_IN, FAILED, KEY_REFUSED = "login", "login.failed", "key.refused"


class Logins:
    """Addresses are client addresses. Attempts beyond the limits are rejected without hashing and without a log
    entry.
    """

    def __init__(
        self,
        accounts: Accounts,
        ledger: SqlAccess,
        *,
        lifetime: timedelta = timedelta(hours=12),
        idle: timedelta | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """A session ends after `lifetime`, or after `idle` without use."""
        self.lifetime = lifetime
        self._idle = idle
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._passwords = Throttle("login", ledger, clock=clock)
        self._keys = Throttle("key", ledger, clock=clock)

    def log_in(self, name: str, password: str, *, address: str, browser: str = "") -> str:
        """Returns the token of a new session. Raises LoginRequiredError, and ThrottledError after too many failures."""
        with self._passwords.attempt(address, name=name, is_known=lambda: self._is_known(name, address)):
            credential = self._credential(name)  # read it first, so that a concurrent password change ends the session
            if not self._accounts.check_password(name, password):
                self._note(FAILED, actor=name, address=address)
                raise LoginRequiredError("Name or password is wrong.")
        return self._begin_session(name, credential, address=address, browser=browser)

    def begin_session(self, name: str, *, address: str, browser: str = "", by: str = "") -> str:
        """Returns the token of a new session for a user whose identity is verified by other means than a password
        (`by`).

        Raises LoginRequiredError for a disabled or deleted user.
        """
        return self._begin_session(name, self._credential(name), address=address, browser=browser, by=by)

    def _begin_session(self, name: str, credential: str, *, address: str, browser: str, by: str = "") -> str:
        token, now = secrets.token_urlsafe(32), self._clock()
        session = WebSession(
            token_hash=digest(token),
            user=name,
            credential=credential,
            created_at=now,
            expires_at=now + self.lifetime,
            id=secrets.token_hex(6),
            used_at=now,
            address=address,
            browser=browser,
        )
        try:
            self._ledger.add_session(session)
        except UnknownUserError:  # deleted or disabled meanwhile
            raise LoginRequiredError("Name or password is wrong.") from None
        self._note_done(LOGGED_IN, actor=name, address=address, detail={"by": by} if by else {})
        return token

    def log_out(self, token: str) -> None:
        """Does nothing if there is no such session."""
        session = self._ledger.web_session(digest(token))
        if session is not None:
            self._ledger.end_sessions([session.token_hash])
            self._note_done("logout", actor=session.user, address="")

    def principal_of_session(self, token: str, *, is_use: bool = True) -> Principal:
        """Raises LoginRequiredError if the session has ended or its user may not log in any more. With `is_use`
        False, the call does not count as use of the session: background requests of an open page are no activity.
        """
        session, now = self._ledger.web_session(digest(token)), self._clock()
        if session is None or session.has_ended(now, self._idle):
            raise LoginRequiredError("Your session has ended. Log in again.")
        principal = self._accounts.principal_of_user(session.user)
        if not is_same(session.credential, self._accounts.credential_of(session.user)):
            raise LoginRequiredError("Your session has ended. Log in again.")
        if is_use and abs(now - session.used_at) >= NOTED_EVERY:  # in the future, if the clock was ahead
            with suppress(CatalogUnavailableError), hardly_waiting():  # the next request notes it
                self._ledger.use_session(session.token_hash, now)
        return replace(principal, session_id=session.id)

    def principal_of_key(self, shown: str, *, address: str) -> Principal:
        """Raises LoginRequiredError, and ThrottledError after too many wrong keys from this address. A throttled
        address may still use generated keys that were right before, because nobody guesses those.
        """
        if self._accounts.was_right(shown):
            if not self._accounts.is_generated(shown):
                self._keys.require_room(address)
            with suppress(LoginRequiredError):
                return self._accounts.principal_of_key(shown)
        with self._keys.attempt(address):
            try:
                return self._accounts.principal_of_key(shown)
            except LoginRequiredError:
                self._note(KEY_REFUSED, actor="", address=address)
                raise

    def _credential(self, name: str) -> str:
        """Empty for an unknown user. The caller still checks the password, so that timing reveals nothing."""
        with suppress(UnknownUserError):
            return self._accounts.credential_of(name)
        return ""

    def _is_known(self, name: str, address: str) -> bool:
        since = self._clock() - KNOWN_FOR
        return self._ledger.count_noted(LOGGED_IN, since=since, actor=name[:100], subject=address) > 0

    def _note(self, action: str, *, actor: str, address: str) -> None:
        self._ledger.note(AuditEntry(self._clock(), actor[:100], action, address, {}))

    def _note_done(self, action: str, *, actor: str, address: str, detail: Mapping[str, str] | None = None) -> None:
        entry = AuditEntry(self._clock(), actor[:100], action, address, detail or {})
        audit.note_done(self._ledger, [entry])
