"""Sign-in by an OpenID provider: the authorization code flow with PKCE (RFC 6749, 7636; OpenID Connect Core)."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from app.errors import ProviderUnavailableError, UntrustedSignInError
from app.openid.id_token import verified_claims
from app.openid.metadata import BASIC, POST, Published, SigningKeys, discovery_url, metadata_of
from app.openid.requests import ProviderClient
from app.types.claims import Claims

_NO_REASON = "no reason given"
_ERROR_CODE = re.compile(r"[a-z_]{1,60}")
# Errors caused by this server's configuration, not by the person who signs in.
_OF_THE_CLIENT = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"})


class OpenIdProvider:
    """Client of one OpenID provider. Sends no request before the first sign-in, so the provider may start later.
    Thread-safe."""

    def __init__(
        self,
        issuer: str,
        *,
        client_id: str,
        client_secret: str | None,
        scopes: str,
        redirect_url: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = scopes
        self._redirect_url = redirect_url
        self._clock = clock
        self._client = ProviderClient()
        self._metadata = Published(lambda: metadata_of(issuer, self._client.get(discovery_url(issuer))))
        self._keys = SigningKeys(lambda: self._client.get(self._metadata.get()[0].jwks_uri))

    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """The URL where the browser signs in. Raises ProviderUnavailableError."""
        endpoint = self._metadata.get()[0].authorization_endpoint
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_url,
            "scope": self._scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters, quote_via=quote)}"

    def claims(self, code: str, *, issuer: str | None, nonce: str, verifier: str) -> Claims:
        """The claims about the person whose browser returned with this code, and with `issuer` if the provider sent
        one. Raises UntrustedSignInError and ProviderUnavailableError.
        """
        metadata, _ = self._metadata.get()
        if issuer != self.issuer and (issuer is not None or metadata.names_itself):
            raise UntrustedSignInError(f"the response is from the issuer {issuer!r}, not {self.issuer!r}")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_url,
            "code_verifier": verifier,
        }
        auth = None
        if self._client_secret is not None and metadata.token_auth == BASIC:
            # RFC 6749, 2.3.1: percent-encode both parts first.
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(self._client_secret, safe=""))
        else:
            form["client_id"] = self._client_id
            if self._client_secret is not None and metadata.token_auth == POST:
                form["client_secret"] = self._client_secret
        status, response = self._client.post(metadata.token_endpoint, form, auth=auth)
        return verified_claims(
            _id_token_of(metadata.token_endpoint, status, response),
            keys=self._keys,
            issuer=self.issuer,
            client_id=self._client_id,
            nonce=nonce,
            now=self._clock(),
        )

    def check(self) -> None:
        """Fetches the provider's metadata and keys. Raises ProviderUnavailableError."""
        metadata, _ = self._metadata.get()
        self._client.get(metadata.jwks_uri)

    def close(self) -> None:
        self._client.close()


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode("ascii").rstrip("=")


def _id_token_of(url: str, status: int, response: dict[str, Any]) -> str:
    if status == httpx.codes.OK:
        token = response.get("id_token")
        if not isinstance(token, str):
            raise ProviderUnavailableError(f"{url} sends no ID token; is `openid` among the scopes of the client?")
        return token
    error = response.get("error")
    code = error if isinstance(error, str) and _ERROR_CODE.fullmatch(error) else _NO_REASON
    if code in _OF_THE_CLIENT:
        raise ProviderUnavailableError(
            f"{url} does not accept this server ({status}: {code}): compare GIRCSE_OIDC_CLIENT_ID, its secret and the "
            "scopes with the client's registration at the provider"
        )
    if code == _NO_REASON or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise ProviderUnavailableError(f"{url} responds {status}: {code}")
    raise UntrustedSignInError(f"{url} refuses the code ({status}: {code})")
