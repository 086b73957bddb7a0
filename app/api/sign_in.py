"""Sign-in of people through an OpenID provider. Errors are shown on the login page."""

from __future__ import annotations

import logging
import uuid

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from app.access.browsers import browser_in_words
from app.access.logins import Logins
from app.access.pending_sign_in import LIFETIME
from app.access.sign_in import SignIn
from app.api.access import CALLBACK, OPENID, client_address, cookie_of
from app.api.login import local, logged_in, login_page
from app.api.problems import set_retry_after
from app.errors import GircseError, ProviderUnavailableError, UntrustedSignInError
from app.types.account_view import DrawLogin

PENDING_COOKIE = "gircse_sign_in"
MAX_CHARACTERS = 4_000
_log = logging.getLogger(__name__)


def sign_in_routes(sign_in: SignIn, logins: Logins, *, draw: DrawLogin) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(OPENID)
    def begin(request: Request, next: str = "/") -> Response:
        try:
            url, pending = sign_in.begin(local(next))
        except GircseError as error:
            return _refusal(error, sign_in.label, draw)
        answer = RedirectResponse(url, 303, headers={"Cache-Control": "no-store"})
        answer.set_cookie(
            PENDING_COOKIE,
            pending,
            max_age=int(LIFETIME.total_seconds()),
            path=OPENID,
            httponly=True,
            samesite="lax",  # "strict" would not send it when the provider redirects the browser back
            secure=request.url.scheme == "https",
        )
        return answer

    @routes.get(CALLBACK)
    def finish(request: Request) -> Response:
        given = {name: value for name, value in request.query_params.items() if len(value) <= MAX_CHARACTERS}
        try:
            token, address = sign_in.finish(
                _pending(request),
                given,
                address=client_address(request.scope),
                browser=browser_in_words(request.headers.get("user-agent", "")),
            )
            answer = logged_in(request, token, address, logins)
        except GircseError as error:
            answer = _refusal(error, sign_in.label, draw)
        answer.headers["Cache-Control"] = "no-store"
        answer.delete_cookie(PENDING_COOKIE, path=OPENID, httponly=True, samesite="lax")
        return answer

    return routes


def _pending(request: Request) -> str:
    return cookie_of(request.headers, PENDING_COOKIE) or ""


def _refusal(error: GircseError, label: str, draw: DrawLogin) -> Response:
    """The login page with the error. Technical details go to the log only, under an id that the page shows."""
    message = str(error)
    if isinstance(error, UntrustedSignInError | ProviderUnavailableError):
        error_id = uuid.uuid4().hex[:12]
        _log.warning("Sign-in %s by %s: %s", error_id, label, error)
        message = _logged_reason(error, label, error_id)
    page = login_page(draw("/", message), error.status)
    set_retry_after(page, error)
    return page


def _logged_reason(error: GircseError, label: str, error_id: str) -> str:
    if isinstance(error, ProviderUnavailableError):
        return f"{label} is unavailable at the moment. Try again in a minute. Error id in the server log: {error_id}."
    return f"Sign-in through {label} failed or took too long. Start again. Error id in the server log: {error_id}."
