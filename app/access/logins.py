"""Sessions, and throttling of failed logins. Both are in the catalog, so that many processes share them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from app.access.accounts import Accounts
from app.access.hashing import digest, is_same
from app.errors import LoginRequiredError, ThrottledError
from app.ports.access import AccessLedger
from app.types.access import AuditEntry, Principal, WebSession
from app.types.documents import utc_now

SESSION_LIFETIME = timedelta(hours=12)
WINDOW = timedelta(minutes=15)
MAX_FAILURES_OF_ADDRESS = 10
MAX_FAILURES_OF_USER = 30  # from any address; higher, so that one attacker cannot lock a user out
FAILED, KEY_REFUSED = "login.failed", "key.refused"


class Logins:
    """An address is that of the client. A failure beyond the limits costs no hash, and is not noted."""

    def __init__(self, accounts: Accounts, ledger: AccessLedger, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock

    def log_in(self, name: str, password: str, *, address: str) -> str:
        """The token of a new session. Raises LoginRequiredError, and ThrottledError after too many failures."""
        self._throttle(name, address)
        if not self._accounts.check_password(name, password):
            self._note(FAILED, actor=name, address=address)
            raise LoginRequiredError("Name or password is wrong.")
        token, now = secrets.token_urlsafe(32), self._clock()
        self._ledger.add_session(
            WebSession(digest(token), name, self._accounts.credential_of(name), now, now + SESSION_LIFETIME)
        )
        self._note("login", actor=name, address=address)
        return token

    def log_out(self, token: str) -> None:
        """Nothing happens when there is no such session."""
        session = self._ledger.web_session(digest(token))
        if session is not None:
            self._ledger.end_session(session.token_hash)
            self._note("logout", actor=session.user, address="")

    def principal_of_session(self, token: str) -> Principal:
        """Raises LoginRequiredError when it has ended, or its user may not come in any more."""
        session = self._ledger.web_session(digest(token))
        if session is None or session.expires_at <= self._clock():
            raise LoginRequiredError("Your session has ended. Log in again.")
        principal = self._accounts.principal_of_user(session.user)
        if not is_same(session.credential, self._accounts.credential_of(session.user)):
            raise LoginRequiredError("Your session has ended. Log in again.")
        return principal

    def principal_of_key(self, shown: str, *, address: str) -> Principal:
        """Raises LoginRequiredError. Not throttled, since keys cannot be guessed; the first wrong ones are logged."""
        try:
            return self._accounts.principal_of_key(shown)
        except LoginRequiredError:
            since = self._clock() - WINDOW
            if self._ledger.count_noted(KEY_REFUSED, since=since, subject=address) < MAX_FAILURES_OF_ADDRESS:
                self._note(KEY_REFUSED, actor="", address=address)
            raise

    def _throttle(self, name: str, address: str) -> None:
        since = self._clock() - WINDOW
        failures = self._ledger.count_noted(FAILED, since=since, subject=address)
        of_user = self._ledger.count_noted(FAILED, since=since, actor=name)
        if failures >= MAX_FAILURES_OF_ADDRESS or of_user >= MAX_FAILURES_OF_USER:
            minutes = int(WINDOW.total_seconds() // 60)
            raise ThrottledError(
                f"Too many failed attempts. Wait up to {minutes} minutes, then try again.",
                retry_after_s=int(WINDOW.total_seconds()),
            )

    def _note(self, action: str, *, actor: str, address: str) -> None:
        self._ledger.note(AuditEntry(self._clock(), actor[:100], action, address))
