"""Sessions, and who comes in by a password or a key. Sessions are in the catalog, which many processes share."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app.access.accounts import Accounts
from app.access.hashing import digest, is_same
from app.access.throttle import Throttle
from app.errors import LoginRequiredError, UnknownUserError
from app.types.access import AuditEntry, Principal, WebSession
from app.types.documents import utc_now

if TYPE_CHECKING:  # it brings in SQL
    from app.catalog import SqlAccess

NOTED_EVERY = timedelta(minutes=1)  # a use of a session within it costs no write
KNOWN_FOR = timedelta(days=30)  # so long an address from which somebody logged in is known for them
LOGGED_IN, FAILED, KEY_REFUSED = "login", "login.failed", "key.refused"


class Logins:
    """An address is that of the client. A failure beyond the limits costs no hash, and is not noted."""

    def __init__(
        self,
        accounts: Accounts,
        ledger: SqlAccess,
        *,
        lifetime: timedelta = timedelta(hours=12),
        idle: timedelta | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """A session ends after `lifetime`, and where it was not used for `idle`."""
        self.lifetime = lifetime
        self._idle = idle
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._passwords = Throttle("login", ledger, clock=clock)
        self._keys = Throttle("key", ledger, clock=clock)

    def log_in(self, name: str, password: str, *, address: str, browser: str = "") -> str:
        """The token of a new session. Raises LoginRequiredError, and ThrottledError after too many failures."""
        with self._passwords.attempt(address, name=name, is_known=lambda: self._is_known(name, address)):
            credential = self._credential(name)  # before: a password that is set meanwhile ends the session
            if not self._accounts.check_password(name, password):
                self._note(FAILED, actor=name, address=address)
                raise LoginRequiredError("Name or password is wrong.")
        return self._begin_session(name, credential, address=address, browser=browser)

    def begin_session(self, name: str, *, address: str, browser: str = "", by: str = "") -> str:
        """The token of a new session of a user who has shown who they are, `by` something else than a password.

        Raises LoginRequiredError for a user who is disabled or removed.
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
        except UnknownUserError:  # removed or disabled since
            raise LoginRequiredError("Name or password is wrong.") from None
        self._note(LOGGED_IN, actor=name, address=address, detail={"by": by} if by else {})
        return token

    def log_out(self, token: str) -> None:
        """Nothing happens when there is no such session."""
        session = self._ledger.web_session(digest(token))
        if session is not None:
            self._ledger.end_sessions([session.token_hash])
            self._note("logout", actor=session.user, address="")

    def principal_of_session(self, token: str, *, is_use: bool = True) -> Principal:
        """Raises LoginRequiredError when it has ended, or its user may not come in any more. Without `is_use` it
        goes on lying unused: an open page is no person who does something."""
        session, now = self._ledger.web_session(digest(token)), self._clock()
        if session is None or session.has_ended(now, self._idle):
            raise LoginRequiredError("Your session has ended. Log in again.")
        principal = self._accounts.principal_of_user(session.user)
        if not is_same(session.credential, self._accounts.credential_of(session.user)):
            raise LoginRequiredError("Your session has ended. Log in again.")
        if is_use and session.used_at + NOTED_EVERY <= now:
            self._ledger.use_session(session.token_hash, now)
        return replace(principal, session_id=session.id)

    def principal_of_key(self, shown: str, *, address: str) -> Principal:
        """Raises LoginRequiredError, and ThrottledError after too many wrong ones from this address: whatever comes
        from there is refused then but keys made here that were right before, which nobody guesses."""
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
        """No session's for an unknown user, whose password is checked all the same: the time must not tell."""
        with suppress(UnknownUserError):
            return self._accounts.credential_of(name)
        return ""

    def _is_known(self, name: str, address: str) -> bool:
        since = self._clock() - KNOWN_FOR
        return self._ledger.count_noted(LOGGED_IN, since=since, actor=name[:100], subject=address) > 0

    def _note(self, action: str, *, actor: str, address: str, detail: Mapping[str, str] | None = None) -> None:
        self._ledger.note(AuditEntry(self._clock(), actor[:100], action, address, detail or {}))
