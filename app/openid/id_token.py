"""Verifies ID tokens: signature, issuer, audience, nonce and times (OpenID Connect Core, 3.1.3.7)."""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from app.errors import UntrustedSignInError
from app.openid.metadata import SigningKeys
from app.types.claims import Claims

# Only algorithms with the provider's private key: not `none`, and not HS*, whose key is shared.
ALGORITHMS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
}
LEEWAY_S = 60  # tolerated difference between two clocks
MAX_CHARACTERS = 64 * 1024
MAX_SUBJECT = 255


def verified_claims(token: str, *, keys: SigningKeys, issuer: str, client_id: str, nonce: str, now: float) -> Claims:
    """Verifies a token and returns its claims. Raises UntrustedSignInError, or ProviderUnavailableError if the
    provider's keys cannot be fetched."""
    if len(token) > MAX_CHARACTERS or token.count(".") != 2:
        raise UntrustedSignInError("the ID token is not a signed JWT, or too long")
    header = _header_of(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS or not isinstance(kid, str | None):
        raise UntrustedSignInError(f"the ID token is signed by {algorithm!r}, not by one of {', '.join(ALGORITHMS)}")
    key = keys.find(kid, kind=ALGORITHMS[algorithm], algorithm=algorithm)
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    try:
        claims = jwt.decode(token, key, algorithms=[algorithm], registry=registry).claims
    except (JoseError, ValueError) as error:
        raise UntrustedSignInError(f"the signature of the ID token is invalid: {error}") from error
    check_claims(claims, issuer=issuer, client_id=client_id, nonce=nonce, now=now)
    return claims


def check_claims(claims: Claims, *, issuer: str, client_id: str, nonce: str, now: float) -> None:
    """Raises UntrustedSignInError unless the claims are for this issuer, client, sign-in and time."""
    if claims.get("iss") != issuer:
        raise UntrustedSignInError(f"the ID token is from the issuer {claims.get('iss')!r}, not {issuer!r}")
    audience = claims.get("aud")
    listed = audience if isinstance(audience, list) else [audience]
    if client_id not in listed:
        raise UntrustedSignInError(f"the ID token is for {audience!r}, not for {client_id!r}")
    if claims.get("azp", client_id) != client_id or (len(listed) > 1 and "azp" not in claims):
        raise UntrustedSignInError(f"the ID token was issued to {claims.get('azp')!r} for {audience!r}")
    if not _time(claims, "exp") > now - LEEWAY_S:
        raise UntrustedSignInError(f"the ID token has expired, by the clock of this machine: {claims.get('exp')!r}")
    for name in ("iat", "nbf"):
        if (name == "iat" or name in claims) and not _time(claims, name) < now + LEEWAY_S:
            raise UntrustedSignInError(f"the ID token is from the future, by the clock of this machine: {name}")
    if claims.get("nonce") != nonce:
        raise UntrustedSignInError("the ID token is for another sign-in (nonce)")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise UntrustedSignInError("the ID token has no valid subject (sub)")


def _time(claims: Claims, name: str) -> float:
    value: Any = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UntrustedSignInError(f"the ID token has no valid time {name}: {value!r}")
    return float(value)


def _header_of(token: str) -> dict[str, Any]:
    part = token.partition(".")[0]
    try:
        header = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError) as error:
        raise UntrustedSignInError("the header of the ID token is invalid") from error
    if not isinstance(header, dict):
        raise UntrustedSignInError("the header of the ID token is invalid")
    return header
