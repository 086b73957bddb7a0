"""Published data of an OpenID provider: its endpoints (discovery) and its signing keys (JWKS)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from app.errors import ProviderUnavailableError, UntrustedSignInError
from app.types.web_addresses import is_confidential

KEPT_S = 3600.0  # cache time; so long a withdrawn key may still be accepted
TRIED_AGAIN_S = 5.0  # within it, callers get the last failure at once instead of waiting for an unreachable provider
MIN_RSA_BITS = 2048
BASIC, POST = "client_secret_basic", "client_secret_post"
_KINDS: dict[str, type[RSAKey] | type[ECKey]] = {"RSA": RSAKey, "EC": ECKey}

SigningKey = RSAKey | ECKey
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Metadata:
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_auth: str = BASIC
    names_itself: bool = False  # the issuer is in each authorization response (RFC 9207)


def metadata_of(issuer: str, document: Mapping[str, Any]) -> Metadata:
    """Parses a discovery document. Raises ProviderUnavailableError if it is unusable."""
    if document.get("issuer") != issuer:
        raise ProviderUnavailableError(
            f"{discovery_url(issuer)} has the issuer {document.get('issuer')!r}, but GIRCSE_OIDC_ISSUER is {issuer!r}"
        )
    addresses = {name: document.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
    for name, url in addresses.items():
        if not isinstance(url, str) or not is_confidential(url):
            raise ProviderUnavailableError(f"{discovery_url(issuer)} has no https address for {name}: {url!r}")
    offered = document.get("token_endpoint_auth_methods_supported")
    takes_form_alone = isinstance(offered, list) and BASIC not in offered and POST in offered
    return Metadata(
        **addresses,  # type: ignore[arg-type]
        token_auth=POST if takes_form_alone else BASIC,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def discovery_url(issuer: str) -> str:
    return f"{issuer.removesuffix('/')}/.well-known/openid-configuration"


class Published(Generic[T]):
    """A fetched value, cached for KEPT_S. Of concurrent callers only one fetches."""

    def __init__(self, fetch: Callable[[], T], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._fetched_at = 0.0
        self._failure: tuple[float, str] | None = None

    def get(self, *, after: float | None = None) -> tuple[T, float]:
        """Returns the value and its fetch time. after: fetches again unless the value is newer. Raises
        ProviderUnavailableError."""
        with self._lock:
            now = self._clock()
            oldest = now - KEPT_S if after is None else after
            if self._value is None or self._fetched_at <= oldest:
                if self._failure is not None and now - self._failure[0] < TRIED_AGAIN_S:
                    raise ProviderUnavailableError(self._failure[1])
                self._value, self._fetched_at = self._fetched(), self._clock()
            return self._value, self._fetched_at

    def _fetched(self) -> T:
        try:
            value = self._fetch()
        except ProviderUnavailableError as error:
            self._failure = (self._clock(), str(error))
            raise
        self._failure = None
        return value


class SigningKeys:
    """The provider's signing keys. Fetches them again for an unknown key, since providers rotate keys."""

    def __init__(self, fetch: Callable[[], Mapping[str, Any]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._published = Published(lambda: signing_keys_of(fetch()), clock=clock)

    def find(self, kid: str | None, *, kind: str, algorithm: str) -> SigningKey:
        """Finds the key of a signature. Raises UntrustedSignInError if the provider does not publish it, and
        ProviderUnavailableError if the keys cannot be fetched."""
        keys, fetched_at = self._published.get()
        found = _match(keys, kid, kind, algorithm)
        if found is None:
            keys, _ = self._published.get(after=fetched_at)
            found = _match(keys, kid, kind, algorithm)
        if found is None:
            raise UntrustedSignInError(f"the provider publishes no key {kid!r} for {algorithm}")
        return found


def signing_keys_of(jwks: Mapping[str, Any]) -> list[SigningKey]:
    """The usable public keys of a JWKS. Ignores symmetric keys: a published one is not secret."""
    listed = jwks.get("keys")
    if not isinstance(listed, list):
        raise ProviderUnavailableError("the provider's keys (JWKS) are not a list")
    found = [_signing_key(jwk) for jwk in listed if isinstance(jwk, dict)]
    return [key for key in found if key is not None]


def _signing_key(jwk: dict[str, Any]) -> SigningKey | None:
    kind = _KINDS.get(str(jwk.get("kty")))
    if kind is None or jwk.get("use", "sig") != "sig":
        return None
    try:
        key = kind.import_key({name: value for name, value in jwk.items() if name not in ("d", "key_ops")})
        too_short = isinstance(key, RSAKey) and key.raw_value.key_size < MIN_RSA_BITS
    except (JoseError, ValueError, TypeError, KeyError):  # the library cannot parse it: ignore the key
        return None
    return None if too_short else key


def _match(keys: list[SigningKey], kid: str | None, kind: str, algorithm: str) -> SigningKey | None:
    """Finds the key of a signature. Without a `kid`, exactly one key must fit (OpenID Connect Core, 10.1)."""
    fitting = [
        key
        for key in keys
        if key.key_type == kind and key.get("alg") in (None, algorithm) and (kid is None or key.get("kid") == kid)
    ]
    return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None
