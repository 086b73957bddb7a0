"""Users and API keys: what each may do, and authentication by key or password."""

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
from app.types.access import EVERYTHING, AccountChange, ApiKey, Identity, Principal, Role, Scope, User, is_of_operator
from app.types.documents import utc_now
from app.types.quotas import Quotas
from embedder.lru import LRUCache

if TYPE_CHECKING:  # it brings in SQL
    from app.catalog import SqlAccess

ADMIN = "admin"
KEY_PREFIX = "gk_"
MIN_PASSWORD_CHARACTERS = 10
MAX_PASSWORD_CHARACTERS = 1_000
MAX_PATTERNS = 100
KEPT_CHECKS = 1_024

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,62}")
_PATTERN = re.compile(r"[a-z0-9*][a-z0-9_*-]{0,62}")
_KEY = re.compile(KEY_PREFIX + r"([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NO_SUCH_KEY = "This API key is not valid: unknown, revoked or expired, or its user is disabled."


class Accounts:
    """`admin_secret` is the password of the user `admin`, and a key of its own. Safe to use from several threads."""

    def __init__(
        self,
        ledger: SqlAccess,
        *,
        admin_secret: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._ledger = ledger
        self._admin_secret = admin_secret
        self._clock = clock
        # Argon2 takes milliseconds: what it said of a key is remembered, never whether the key may still be used.
        self._checked: LRUCache[str, str] = LRUCache(KEPT_CHECKS)
        self._salt = secrets.token_urlsafe(32)
        self._lock = threading.Lock()

    # Users

    def users(self) -> list[User]:
        return self._ledger.users()

    def user(self, name: str) -> User:
        return self._ledger.user(name)

    def add_user(
        self,
        name: str,
        *,
        role: Role,
        collections: Iterable[str] = EVERYTHING,
        password: str | None = None,
        identity: Identity | None = None,
    ) -> User:
        """Raises InputError, and ConflictError when the name is taken."""
        if not _NAME.fullmatch(name):
            raise InputError(f"{name[:80]!r} cannot name a user: use 1 to 63 of a-z, 0-9 and . _ @ -.")
        if name == ADMIN:
            raise ConflictError("The user admin is there from the start; its password is the admin secret.")
        if is_of_operator(name):
            raise InputError(f"{name!r} is the name of this server itself; choose another one.")
        user = User(name, role, self._clock(), check_collections(collections), _hashed(password))
        self._ledger.add_user(user, identity=identity)
        return user

    def connect_user(self, name: str, identity: Identity) -> None:
        """Who signs in as this identity is this user. Raises InputError, UnknownUserError and ConflictError."""
        if not identity.subject or not (identity.issuer + identity.subject).isprintable():
            raise InputError("The subject is what the provider calls the person: `sub`, as the sign-in page told it.")
        self._ledger.connect_user(self._changeable(name).name, identity)

    def disconnect_user(self, name: str) -> int:
        """From all identities; how many they were. Sessions end."""
        return self._ledger.disconnect_user(self._changeable(name).name)

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
        """What is None stays. A new password, or being disabled, ends every session. Raises InputError."""
        self._changeable(name)
        change = AccountChange(
            role,
            None if collections is None else check_collections(collections),
            _hashed(password),
            is_disabled,
            quotas,
        )
        return self._ledger.change_user(name, change)

    def change_own_password(self, name: str, current: str, new: str) -> bool:
        """Whether the current one was right. Raises InputError, and UnknownUserError for a user who was disabled, or
        given another password, meanwhile."""
        user = self._changeable(name)
        if user.password_hash is None or not PASSWORDS.matches(current, user.password_hash) or user.disabled_at:
            return False
        self._ledger.change_user(name, AccountChange(password_hash=_hashed(new)), only_password=user.password_hash)
        return True

    def remove_user(self, name: str) -> None:
        """With all keys and sessions."""
        self._ledger.delete_user(self._changeable(name).name)

    def ensure_admin(self) -> None:
        """Makes the user admin, to whom keys can belong."""
        try:
            self._ledger.user(ADMIN)
        except UnknownUserError:
            self._ledger.add_user(User(ADMIN, Role.ADMIN, self._clock()))

    def _changeable(self, name: str) -> User:
        if name == ADMIN:
            raise ConflictError("The user admin stays as it is. Another secret: GIRCSE_ADMIN_SECRET, or its file.")
        return self._ledger.user(name)

    # Keys

    def api_keys(self, user: str | None = None) -> list[ApiKey]:
        return self._ledger.keys(user)

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
        """The key, and the text to show: it is told this once. Raises ForbiddenError for more than its user may do."""
        owner = self._ledger.user(user)
        wanted = owner.role if role is None else role
        if wanted > owner.role:
            raise ForbiddenError(f"{user} is {owner.role.label}: a key of this user cannot be {wanted.label}.")
        if expires_at is not None and expires_at <= self._clock():
            raise InputError(f"A key cannot expire at {expires_at:%Y-%m-%d %H:%M}, which is over.")
        if len(label) > 80 or not label.isprintable():
            raise InputError("The label of a key has at most 80 characters, all printable.")
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
        self._ledger.add_key(key)
        return key, f"{KEY_PREFIX}{key_id}_{secret}"

    def revoke_key(self, key_id: str) -> None:
        self._ledger.revoke_key(key_id)

    def key(self, key_id: str) -> ApiKey | None:
        return self._ledger.key(key_id)

    # Who is it?

    def was_right(self, shown: str) -> bool:
        """Whether this process has found out before that this is a key, or the admin secret; it may be revoked now."""
        return self._checked.get(self._remembered_as(shown)) is not None

    @staticmethod
    def is_generated(shown: str) -> bool:
        """Whether it has the shape of a key, which is random; the admin secret may be chosen."""
        return _KEY.fullmatch(shown) is not None

    def principal_of_key(self, shown: str) -> Principal:
        """Raises LoginRequiredError. Unknown keys take as long as wrong ones."""
        if self._admin_secret is not None and is_same(shown, self._admin_secret):
            self._remember(shown)
            return self.principal_of_user(ADMIN)
        parts = _KEY.fullmatch(shown)
        if parts is None:
            raise LoginRequiredError(_NO_SUCH_KEY)
        key = self._ledger.key(parts[1])
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
        """Raises LoginRequiredError when there is no such user any more, or it is disabled."""
        try:
            user = self._ledger.user(name)
        except UnknownUserError:
            raise LoginRequiredError(_NO_SUCH_KEY) from None
        if user.disabled_at is not None or is_of_operator(name):  # which earlier versions let a user be called
            raise LoginRequiredError(_NO_SUCH_KEY)
        return Principal(user.name, user.role, user.collections, quotas=user.quotas)

    def check_password(self, name: str, password: str) -> bool:
        """Unknown users take as long as wrong passwords."""
        if name == ADMIN:
            PASSWORDS.matches(password, None)
            return self._admin_secret is not None and is_same(password, self._admin_secret)
        try:
            user = self._ledger.user(name)
        except UnknownUserError:
            return PASSWORDS.matches(password, None)
        return PASSWORDS.matches(password, user.password_hash) and user.disabled_at is None

    def credential_of(self, name: str) -> str:
        """A digest of what this user logs in with: sessions that were begun with another one have ended."""
        if name == ADMIN:
            return digest(f"{ADMIN} {self._admin_secret}")
        return digest(f"{name} {self._ledger.user(name).password_hash}")

    def _is_secret_of(self, key: ApiKey | None, secret: str) -> bool:
        if key is None:
            return KEYS.matches(secret, None)
        shown = f"{KEY_PREFIX}{key.id}_{secret}"
        if self._checked.get(self._remembered_as(shown)) == key.secret_hash:
            return True
        is_right = KEYS.matches(secret, key.secret_hash)
        if is_right:
            self._remember(shown, key.secret_hash)
        return is_right

    def _remember(self, shown: str, secret_hash: str = "") -> None:
        self._checked.keep({self._remembered_as(shown): secret_hash})

    def _remembered_as(self, shown: str) -> str:
        return digest(self._salt + shown)


def check_collections(patterns: Iterable[str]) -> tuple[str, ...]:
    """Raises InputError for what can match no collection."""
    checked = tuple(dict.fromkeys(patterns))
    if len(checked) > MAX_PATTERNS:
        raise InputError(f"At most {MAX_PATTERNS} collections can be listed, not {len(checked)}; `team-*` names many.")
    for each in checked:
        if not _PATTERN.fullmatch(each):
            raise InputError(f"{each[:80]!r} names no collections: write a name, or a part of it with *, as team-*.")
    return checked


def _hashed(password: str | None) -> str | None:
    if password is None:
        return None
    if not MIN_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
        raise InputError(
            f"A password has {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters, not {len(password)}."
        )
    return PASSWORDS.hash(password)
