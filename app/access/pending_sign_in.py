"""The signed cookie that a browser keeps between redirect to an OpenID provider and return."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from app.errors import UntrustedSignInError

LIFETIME = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that has begun and not returned from the provider. `verifier`: PKCE's code verifier. `way`: address of
    the page to open afterwards."""

    state: str
    nonce: str
    verifier: str
    way: str
    until: float

    @classmethod
    def begin(cls, way: str, *, now: datetime) -> PendingSignIn:
        """Random values are hexadecimal, so that nothing in a URL looks like an API key."""
        state, nonce, verifier = (secrets.token_hex(32) for _ in range(3))
        return cls(state, nonce, verifier, way, (now + LIFETIME).timestamp())

    def sealed(self, key: bytes) -> str:
        body = base64.urlsafe_b64encode(json.dumps(asdict(self)).encode())
        return f"{body.decode()}.{_seal(body, key)}"


def opened(sealed: str, key: bytes, *, now: datetime) -> PendingSignIn:
    """Raises UntrustedSignInError if the signature does not match this key, or the cookie is too old, or was
    made by a clock that was ahead by more than LIFETIME."""
    body, _, seal = sealed.partition(".")
    if not hmac.compare_digest(_seal(body.encode("utf-8", "replace"), key).encode(), seal.encode("utf-8", "replace")):
        raise UntrustedSignInError("the cookie was not signed by this server")
    pending = PendingSignIn(**json.loads(base64.urlsafe_b64decode(body)))
    if not 0 < pending.until - now.timestamp() <= 2 * LIFETIME.total_seconds():
        raise UntrustedSignInError("the cookie is too old")
    return pending


def _seal(body: bytes, key: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()
