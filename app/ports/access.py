"""Ports of access control."""

from __future__ import annotations

from typing import Protocol

from app.types.claims import Claims


class IdentityProvider(Protocol):
    """An OpenID provider. Its error messages are for the log."""

    @property
    def issuer(self) -> str: ...
    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """The URL where the browser signs in. Raises ProviderUnavailableError."""
        ...

    def claims(self, code: str, *, issuer: str | None, nonce: str, verifier: str) -> Claims:
        """The claims about the person whose browser returned with this code, and with `issuer` if the provider sent
        one. Raises UntrustedSignInError and ProviderUnavailableError.
        """
        ...
