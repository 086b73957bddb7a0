"""An OpenID provider behind its port: what it publishes, the exchange of a code, and its ID tokens."""

from app.openid.provider import OpenIdProvider

__all__ = ["OpenIdProvider"]
