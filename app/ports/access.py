"""What access control needs of the catalog."""

from __future__ import annotations

from typing import Protocol

from app.types.claims import Claims


class IdentityProvider(Protocol):
    """Who says who somebody is. Its errors are for the log."""

    @property
    def issuer(self) -> str: ...
    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Where a browser goes to sign in. Raises ProviderUnavailableError."""
        ...

    def claims(self, code: str, *, issuer: str | None, nonce: str, verifier: str) -> Claims:
        """Of the person whose browser came back with this code, and with this issuer if it named one. Raises
        UntrustedSignInError and ProviderUnavailableError."""
        ...
