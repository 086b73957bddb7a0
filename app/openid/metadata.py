"""What an OpenID provider publishes of itself: its addresses (discovery) and the keys that it signs with (JWKS)."""

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

KEPT_S = 3600.0  # so long a key that the provider withdrew may still be taken
TRIED_AGAIN_S = 5.0  # who comes sooner is told the last failure, so that nobody waits for one that is away
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
    names_itself: bool = False  # in each answer (RFC 9207)


def metadata_of(issuer: str, said: Mapping[str, Any]) -> Metadata:
    """Raises ProviderUnavailableError for what cannot be used."""
    if said.get("issuer") != issuer:
        raise ProviderUnavailableError(
            f"{discovery_url(issuer)} is of the issuer {said.get('issuer')!r}; GIRCSE_OIDC_ISSUER is {issuer!r}"
        )
    addresses = {name: said.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
    for name, url in addresses.items():
        if not isinstance(url, str) or not is_confidential(url):
            raise ProviderUnavailableError(f"{discovery_url(issuer)} gives no https address as {name}: {url!r}")
    offered = said.get("token_endpoint_auth_methods_supported")
    takes_form_alone = isinstance(offered, list) and BASIC not in offered and POST in offered
    return Metadata(
        **addresses,  # type: ignore[arg-type]
        token_auth=POST if takes_form_alone else BASIC,
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
    )


def discovery_url(issuer: str) -> str:
    return f"{issuer.removesuffix('/')}/.well-known/openid-configuration"


class Published(Generic[T]):
    """A value that is fetched and kept for a time; of many who ask at once one fetches it."""

    def __init__(self, fetch: Callable[[], T], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._fetched_at = 0.0
        self._failure: tuple[float, str] | None = None

    def get(self, *, after: float | None = None) -> tuple[T, float]:
        """The value and when it was fetched; anew where that was not after `after`. Raises ProviderUnavailableError."""
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
    """A key that is not among those that are known is looked for once more: providers change theirs."""

    def __init__(self, fetch: Callable[[], Mapping[str, Any]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._published = Published(lambda: signing_keys_of(fetch()), clock=clock)

    def find(self, kid: str | None, *, kind: str, algorithm: str) -> SigningKey:
        """Raises UntrustedSignInError and ProviderUnavailableError."""
        keys, fetched_at = self._published.get()
        found = _match(keys, kid, kind, algorithm)
        if found is None:
            keys, _ = self._published.get(after=fetched_at)
            found = _match(keys, kid, kind, algorithm)
        if found is None:
            raise UntrustedSignInError(f"the provider publishes no key {kid!r} for {algorithm}")
        return found


def signing_keys_of(said: Mapping[str, Any]) -> list[SigningKey]:
    """Those that can verify a signature; no symmetric one, which is no secret where it is published."""
    listed = said.get("keys")
    if not isinstance(listed, list):
        raise ProviderUnavailableError("the provider's keys (JWKS) are no list")
    found = [_signing_key(each) for each in listed if isinstance(each, dict)]
    return [key for key in found if key is not None]


def _signing_key(said: dict[str, Any]) -> SigningKey | None:
    kind = _KINDS.get(str(said.get("kty")))
    if kind is None or said.get("use", "sig") != "sig":
        return None
    try:
        key = kind.import_key({name: value for name, value in said.items() if name not in ("d", "key_ops")})
        too_short = isinstance(key, RSAKey) and key.raw_value.key_size < MIN_RSA_BITS
    except (JoseError, ValueError, TypeError, KeyError):  # one that this library cannot read is as one not there
        return None
    return None if too_short else key


def _match(keys: list[SigningKey], kid: str | None, kind: str, algorithm: str) -> SigningKey | None:
    """Without a `kid` there must be one key alone that it could be (OpenID Connect Core, 10.1)."""
    fitting = [
        key
        for key in keys
        if key.key_type == kind and key.get("alg") in (None, algorithm) and (kid is None or key.get("kid") == kid)
    ]
    return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None
