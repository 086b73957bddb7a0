"""Users and API keys: their rights, and authentication by key or password."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from app.access.hashing import KEYS, PASSWORDS, digest, is_same
from app.errors import ConflictError, ForbiddenError, InputError, LoginRequiredError, UnknownUserError
from app.types.access import (
    EVERYTHING,
    MIN_PASSWORD_CHARACTERS,
    AccountChange,
    ApiKey,
    Identity,
    Principal,
    Role,
    Scope,
    User,
    is_of_operator,
)
from app.types.documents import utc_now
from app.types.quotas import Quotas
from embedder.lru import LRUCache

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlAccess

ADMIN = "admin"
KEY_PREFIX = "gk_"
MAX_PASSWORD_CHARACTERS = 1_000
MAX_PATTERNS = 100
KEPT_CHECKS = 1_024

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,62}")
_PATTERN = re.compile(r"[a-z0-9*][a-z0-9_*-]{0,62}")
_KEY = re.compile(KEY_PREFIX + r"([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NO_SUCH_KEY = "This API key is not valid: unknown, revoked or expired, or its user is disabled."


class Accounts:
    """The users, and authentication by key or password. `admin_secret` is the password of the user `admin` and also
    works as an API key. Thread-safe."""

    def __init__(
        self,
        ledger: SqlAccess,
        *,
        admin_secret: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.ledger = ledger
        self._admin_secret = admin_secret
        self._clock = clock
        # Argon2 takes milliseconds, so cache successful hash checks; whether the key is still valid is checked every
        # time.
        self._checked: LRUCache[str, str] = LRUCache(KEPT_CHECKS)
        self._salt = secrets.token_urlsafe(32)
        self._lock = threading.Lock()

    # Users

    def add_user(
        self,
        name: str,
        *,
        role: Role,
        collections: Iterable[str] = EVERYTHING,
        password: str | None = None,
        identity: Identity | None = None,
    ) -> User:
        """Raises InputError, and ConflictError if the name is taken."""
        if not _NAME.fullmatch(name):
            raise InputError(f"{name[:80]!r} is not a valid user name: use 1 to 63 of a-z, 0-9 and . _ @ -.")
        if name == ADMIN:
            raise ConflictError("The user admin always exists; its password is the admin secret.")
        if is_of_operator(name):
            raise InputError(f"{name!r} is reserved for the server; choose another name.")
        user = User(name, role, self._clock(), check_collections(collections), _hashed(password))
        self.ledger.add_user(user, identity=identity)
        return user

    def connect_user(self, name: str, identity: Identity) -> None:
        """Link the identity, so that a login with it is a login of this user. Raises InputError, UnknownUserError and
        ConflictError.
        """
        if not identity.subject or not (identity.issuer + identity.subject).isprintable():
            raise InputError("The subject is the provider's id of the person (`sub`), as shown on the sign-in page.")
        self.ledger.connect_user(self._changeable(name).name, identity)

    def disconnect_user(self, name: str) -> int:
        """Unlink all identities and end all sessions. Returns the number of unlinked identities."""
        return self.ledger.disconnect_user(self._changeable(name).name)

    def change_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        collections: Iterable[str] | None = None,
        is_disabled: bool | None = None,
        password: str | None = None,
        quotas: Quotas | None = None,
    ) -> User:
        """None leaves a field unchanged. A new password, or disabling, ends every session. Raises InputError."""
        self._changeable(name)
        change = AccountChange(
            role,
            None if collections is None else check_collections(collections),
            _hashed(password),
            is_disabled,
            quotas,
        )
        return self.ledger.change_user(name, change)

    def matching_hash(self, name: str, password: str) -> str | None:
        """The stored hash of the password; None if the password is wrong or the user is disabled."""
        user = self._changeable(name)
        is_right = user.password_hash is not None and PASSWORDS.matches(password, user.password_hash)
        return user.password_hash if is_right and user.disabled_at is None else None

    def replace_password(self, name: str, new: str, *, old_hash: str) -> None:
        """Raises InputError, and UnknownUserError if the user was disabled or got another password meanwhile."""
        self.ledger.change_user(name, AccountChange(password_hash=_hashed(new)), only_password=old_hash)

    def remove_user(self, name: str) -> None:
        """Also deletes all keys and sessions."""
        self.ledger.delete_user(self._changeable(name).name)

    def ensure_admin(self) -> None:
        """Create the user admin in the catalog, so that it can own keys."""
        try:
            self.ledger.user(ADMIN)
        except UnknownUserError:
            self.ledger.add_user(User(ADMIN, Role.ADMIN, self._clock()))

    def _changeable(self, name: str) -> User:
        if name == ADMIN:
            raise ConflictError(
                "The user admin cannot be changed. To change its secret, set GIRCSE_ADMIN_SECRET or edit its file."
            )
        return self.ledger.user(name)

    # Keys

    def api_keys(self, user: str | None = None) -> list[ApiKey]:
        return self.ledger.keys(user)

    def add_key(
        self,
        user: str,
        *,
        label: str = "",
        role: Role | None = None,
        collections: Iterable[str] = EVERYTHING,
        expires_at: datetime | None = None,
        scopes: Iterable[Scope] = (),
    ) -> tuple[ApiKey, str]:
        """Returns the key and its text, which cannot be shown again. Raises ForbiddenError for more rights than its
        user has.
        """
        owner = self.ledger.user(user)
        wanted = owner.role if role is None else role
        if wanted > owner.role:
            raise ForbiddenError(f"{user} is {owner.role.label}: a key of this user cannot be {wanted.label}.")
        if expires_at is not None and expires_at <= self._clock():
            raise InputError(f"A key cannot expire in the past: {expires_at:%Y-%m-%d %H:%M}.")
        if len(label) > 80 or not label.isprintable():
            raise InputError("A key's label must have at most 80 printable characters.")
        secret, key_id = secrets.token_urlsafe(32), secrets.token_hex(6)
        key = ApiKey(
            key_id,
            user,
            label,
            KEYS.hash(secret),
            wanted,
            self._clock(),
            check_collections(collections),
            expires_at,
            scopes=tuple(dict.fromkeys(scopes)),
        )
        self.ledger.add_key(key)
        return key, f"{KEY_PREFIX}{key_id}_{secret}"

    # Authentication

    def was_right(self, shown: str) -> bool:
        """True if this process has verified this key or admin secret before; the key may be revoked by now."""
        return self._checked.get(self._cache_key(shown)) is not None

    @staticmethod
    def is_generated(shown: str) -> bool:
        """True if it has the format of a generated key, which is random; people may choose an admin secret
        themselves.
        """
        return _KEY.fullmatch(shown) is not None

    def principal_of_key(self, shown: str) -> Principal:
        """Raises LoginRequiredError. Unknown keys take as long as wrong ones."""
        if self._admin_secret is not None and is_same(shown, self._admin_secret):
            self._remember(shown)
            return self.principal_of_user(ADMIN)
        parts = _KEY.fullmatch(shown)
        if parts is None:
            raise LoginRequiredError(_NO_SUCH_KEY)
        key = self.ledger.key(parts[1])
        if not self._is_secret_of(key, parts[2]) or key is None or not key.is_valid(self._clock()):
            raise LoginRequiredError(_NO_SUCH_KEY)
        owner = self.principal_of_user(key.user)
        return replace(
            owner,
            role=min(owner.role, key.role),
            key_id=key.id,
            key_collections=key.collections,
            scopes=key.scopes,
        )

    def principal_of_user(self, name: str) -> Principal:
        """Raises LoginRequiredError if the user is missing or disabled."""
        try:
            user = self.ledger.user(name)
        except UnknownUserError:
            raise LoginRequiredError(_NO_SUCH_KEY) from None
        if user.disabled_at is not None or is_of_operator(name):  # earlier versions allowed the operator's name
            raise LoginRequiredError(_NO_SUCH_KEY)
        return Principal(user.name, user.role, user.collections, quotas=user.quotas)

    def check_password(self, name: str, password: str) -> bool:
        """Unknown users take as long as wrong passwords."""
        if name == ADMIN:
            PASSWORDS.matches(password, None)
            return self._admin_secret is not None and is_same(password, self._admin_secret)
        try:
            user = self.ledger.user(name)
        except UnknownUserError:
            return PASSWORDS.matches(password, None)
        return PASSWORDS.matches(password, user.password_hash) and user.disabled_at is None

    def credential_of(self, name: str) -> str:
        """A digest of the user's credential. A session is valid only while it stays the same."""
        if name == ADMIN:
            return digest(f"{ADMIN} {self._admin_secret}")
        return digest(f"{name} {self.ledger.user(name).password_hash}")

    def _is_secret_of(self, key: ApiKey | None, secret: str) -> bool:
        if key is None:
            return KEYS.matches(secret, None)
        shown = f"{KEY_PREFIX}{key.id}_{secret}"
        if self._checked.get(self._cache_key(shown)) == key.secret_hash:
            return True
        is_right = KEYS.matches(secret, key.secret_hash)
        if is_right:
            self._remember(shown, key.secret_hash)
        return is_right

    def _remember(self, shown: str, secret_hash: str = "") -> None:
        self._checked.keep({self._cache_key(shown): secret_hash})

    def _cache_key(self, shown: str) -> str:
        return digest(self._salt + shown)


def check_collections(patterns: Iterable[str]) -> tuple[str, ...]:
    """Raises InputError for a pattern that can match no collection."""
    checked = tuple(dict.fromkeys(patterns))
    if len(checked) > MAX_PATTERNS:
        raise InputError(
            f"List at most {MAX_PATTERNS} collections, not {len(checked)}; a pattern such as `team-*` covers several."
        )
    for pattern in checked:
        if not _PATTERN.fullmatch(pattern):
            raise InputError(
                f"{pattern[:80]!r} is not a collection name or pattern: write a name, or a pattern such as team-*."
            )
    return checked


def _hashed(password: str | None) -> str | None:
    if password is None:
        return None
    if not MIN_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
        raise InputError(
            f"A password needs {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters, not {len(password)}."
        )
    return PASSWORDS.hash(password)
