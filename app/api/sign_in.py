"""Signing in by an OpenID provider, for people. Where it went wrong, the login page says so."""

from __future__ import annotations

import logging
import uuid
from http.cookies import CookieError, SimpleCookie

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from app.access.browsers import browser_in_words
from app.access.logins import Logins
from app.access.pending_sign_in import LIFETIME
from app.access.sign_in import SignIn
from app.api.access import CALLBACK, OPENID, client_address
from app.api.login import DrawLogin, local, logged_in, login_page
from app.api.problems import tell_when_to_ask_again
from app.errors import GircseError, ProviderUnavailableError, UntrustedSignInError

PENDING_COOKIE = "gircse_sign_in"
MAX_CHARACTERS = 4_000
_log = logging.getLogger(__name__)


def sign_in_routes(sign_in: SignIn, logins: Logins, *, draw: DrawLogin) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(OPENID)
    def begin(request: Request, next: str = "/") -> Response:
        try:
            url, kept = sign_in.begin(local(next))
        except GircseError as error:
            return _refusal(error, sign_in.label, draw)
        answer = RedirectResponse(url, 303, headers={"Cache-Control": "no-store"})
        answer.set_cookie(
            PENDING_COOKIE,
            kept,
            max_age=int(LIFETIME.total_seconds()),
            path=OPENID,
            httponly=True,
            samesite="lax",  # it has to come along when the provider sends the browser back
            secure=request.url.scheme == "https",
        )
        return answer

    @routes.get(CALLBACK)
    def finish(request: Request) -> Response:
        given = {name: value for name, value in request.query_params.items() if len(value) <= MAX_CHARACTERS}
        try:
            token, way = sign_in.finish(
                _pending(request),
                given,
                address=client_address(request.scope),
                browser=browser_in_words(request.headers.get("user-agent", "")),
            )
            answer = logged_in(request, token, way, logins)
        except GircseError as error:
            answer = _refusal(error, sign_in.label, draw)
        answer.headers["Cache-Control"] = "no-store"
        answer.delete_cookie(PENDING_COOKIE, path=OPENID, httponly=True, samesite="lax")
        return answer

    return routes


def _pending(request: Request) -> str:
    try:
        cookies = SimpleCookie(request.headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[PENDING_COOKIE].value if PENDING_COOKIE in cookies else ""


def _refusal(error: GircseError, label: str, draw: DrawLogin) -> Response:
    """The page, with an id by which an admin finds in the log what a person need not know."""
    said = str(error)
    if isinstance(error, UntrustedSignInError | ProviderUnavailableError):
        error_id = uuid.uuid4().hex[:12]
        _log.warning("Sign-in %s by %s: %s", error_id, label, error)
        said = _logged_reason(error, label, error_id)
    page = login_page(draw("/", said), error.status)
    tell_when_to_ask_again(page, error)
    return page


def _logged_reason(error: GircseError, label: str, error_id: str) -> str:
    if isinstance(error, ProviderUnavailableError):
        return f"{label} cannot sign you in at the moment. Try again in a minute; the log names this {error_id}."
    return f"Signing in by {label} did not work, or took too long. Begin again; the log names this {error_id}."
