"""The client of an OpenID provider: its metadata, the exchange of a code, and the verification of ID tokens."""

from app.openid.provider import OpenIdProvider

__all__ = ["OpenIdProvider"]
