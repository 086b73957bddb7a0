"""Hashes of passwords and keys (Argon2id, RFC 9106). Checking a missing hash takes as long as checking a present
one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# Passwords can be guessed, so each guess costs 64 MiB and tens of milliseconds. A key has 256 random bits.
_PASSWORDS = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)
_KEYS = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1)
# Limits memory under concurrent requests.
_AT_A_TIME = threading.Semaphore(2)
_SOMETHING = secrets.token_urlsafe(32)


class SecretHasher:
    """If there is no stored hash, checks against `absent`, which nothing matches, so that timing reveals nothing."""

    def __init__(self, hasher: PasswordHasher) -> None:
        self._hasher = hasher
        self._absent: str | None = None
        self._lock = threading.Lock()

    def hash(self, secret: str) -> str:
        with _AT_A_TIME:
            return self._hasher.hash(secret)

    def matches(self, secret: str, hashed: str | None) -> bool:
        """False if `hashed` is None, after the same amount of work."""
        known = self._absent_hash() if hashed is None else hashed
        try:
            with _AT_A_TIME:
                self._hasher.verify(known, secret)
        except (VerificationError, InvalidHashError):
            return False
        return hashed is not None

    def _absent_hash(self) -> str:
        with self._lock:
            if self._absent is None:
                self._absent = self._hasher.hash(_SOMETHING)
            return self._absent


PASSWORDS = SecretHasher(_PASSWORDS)
KEYS = SecretHasher(_KEYS)


def digest(text: str) -> str:
    """SHA-256; use only for random values, because others could be guessed from it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Constant-time comparison."""
    return hmac.compare_digest(digest(one), digest(other))
