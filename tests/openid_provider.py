"""A real OpenID provider on this machine, made of Authlib's grants: codes that are taken once, PKCE, signed tokens.

It signs in whom `person` describes, without asking. Tests make it lie: see `forge`, `answers` and `published`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import OpenIDCode
from flask import Flask, Response, jsonify, request
from joserfc import jwt
from joserfc.jwk import RSAKey
from served import in_thread
from werkzeug.serving import WSGIRequestHandler, make_server

CLIENT, SECRET, PUBLIC_CLIENT = "search", "a secret with : and %", "public-search"
ANNA = {"sub": "anna's id", "preferred_username": "Anna", "groups": ["search-users"]}

Forge = Callable[[dict[str, Any], dict[str, Any]], str]


@dataclass
class Client(ClientMixin):
    client_id: str
    secret: str | None
    redirect_urls: list[str]

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_urls[0]

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_urls

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none" if self.secret is None else method in OpenIdProvider.current.token_auth

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Code(AuthorizationCodeMixin):
    code: str
    client_id: str
    redirect_uri: str
    scope: str
    nonce: str | None
    person: dict[str, Any]
    code_challenge: str | None
    code_challenge_method: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(time.time())

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


class CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post", "none")

    def save_authorization_code(self, code: str, request: Any) -> None:
        asked = request.payload
        provider = OpenIdProvider.current
        provider.codes[code] = Code(
            code,
            asked.client_id,
            asked.redirect_uri,
            asked.scope,
            asked.data.get("nonce"),
            dict(request.user),
            asked.data.get("code_challenge"),
            asked.data.get("code_challenge_method"),
        )

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        found = OpenIdProvider.current.codes.get(code)
        return found if found and found.client_id == client.client_id else None

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del OpenIdProvider.current.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> dict[str, Any]:
        return authorization_code.person


class IdToken(OpenIDCode):
    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return False

    def get_client_claims(self, client: Client) -> dict[str, Any]:
        return {"iss": OpenIdProvider.current.issuer, "aud": client.client_id}

    def generate_user_info(self, user: dict[str, Any], scope: str) -> dict[str, Any]:
        return dict(user)

    def resolve_client_private_key(self, client: Client) -> RSAKey:
        return OpenIdProvider.current.key

    def get_encode_header(self, client: Client) -> dict[str, Any]:
        return {"alg": "RS256", "kid": OpenIdProvider.current.key.kid}

    def encode_id_token(self, token: Any, request: Any) -> str:
        provider, honest = OpenIdProvider.current, super().encode_id_token(token, request)
        decoded = jwt.decode(honest, provider.key)
        return provider.forge(dict(decoded.header), dict(decoded.claims)) if provider.forge else honest


@dataclass
class OpenIdProvider:
    """`forge` makes an ID token of the header and claims of an honest one; `answers` replaces the answer of a path;
    `published` are the keys, `asked` counts requests by path."""

    issuer: str
    redirect_urls: list[str]
    person: dict[str, Any] = field(default_factory=lambda: dict(ANNA))
    key: RSAKey = field(default_factory=lambda: new_key("first"))
    forge: Forge | None = None
    answers: dict[str, Callable[[], Response]] = field(default_factory=dict)
    token_auth: tuple[str, ...] = ("client_secret_basic",)
    metadata: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, Code] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    published: list[dict[str, Any]] | None = None

    current: OpenIdProvider = field(init=False, repr=False)  # the one of this process

    def behave(self) -> None:
        """Honest again, with Anna."""
        self.person, self.forge, self.metadata, self.published = dict(ANNA), None, {}, None
        self.token_auth = ("client_secret_basic",)
        self.answers.clear()
        self.asked.clear()

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid} | header, claims, self.key, default_type=None)

    def client(self, client_id: str) -> Client | None:
        secrets = {CLIENT: SECRET, PUBLIC_CLIENT: None}
        return Client(client_id, secrets[client_id], self.redirect_urls) if client_id in secrets else None


def new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def provider_app(provider: OpenIdProvider) -> Flask:
    app = Flask(__name__)
    server = AuthorizationServer(app, query_client=provider.client, save_token=lambda token, request: None)
    server.register_grant(CodeGrant, [IdToken(require_nonce=True), CodeChallenge(required=True)])

    @app.before_request
    def count() -> Response | None:
        provider.asked[request.path] += 1
        return provider.answers[request.path]() if request.path in provider.answers else None

    @app.get("/.well-known/openid-configuration")
    def discovery() -> Response:
        return jsonify(
            {
                "issuer": provider.issuer,
                "authorization_endpoint": f"{provider.issuer}/authorize",
                "token_endpoint": f"{provider.issuer}/token",
                "jwks_uri": f"{provider.issuer}/keys",
                "token_endpoint_auth_methods_supported": provider.token_auth,
                "authorization_response_iss_parameter_supported": False,
                **provider.metadata,
            }
        )

    @app.get("/keys")
    def keys() -> Response:
        return jsonify({"keys": provider.published or [provider.key.as_dict(private=False)]})

    @app.get("/authorize")
    def authorize() -> Response:
        grant = server.get_consent_grant(end_user=provider.person)
        return server.create_authorization_response(grant_user=provider.person, grant=grant)

    @app.post("/token")
    def token() -> Response:
        return server.create_token_response()

    return app


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        pass


@contextmanager
def openid_provider(*redirect_urls: str) -> Iterator[OpenIdProvider]:
    """In a thread of this process, on loopback."""
    provider = OpenIdProvider("", list(redirect_urls))
    OpenIdProvider.current = provider
    server = make_server("127.0.0.1", 0, provider_app(provider), threaded=True, request_handler=_Silent)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    with in_thread(server):
        yield provider
