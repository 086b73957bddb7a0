"""Login and logout of people by password and session cookie. The caller passes the function that renders the page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from app.access.browsers import browser_in_words
from app.access.logins import Logins
from app.api.access import COOKIE, LOGIN, client_address, session_token
from app.api.fair_slots import FairSlots, SlotLimits
from app.errors import LoginRequiredError, ThrottledError
from app.types.account_view import DrawLogin
from embedder.server.networks import network_of

MAX_CHARACTERS = 1_000
# A check of a password takes a thread for up to a second. Hundreds at once would leave none for other requests.
CHECKS_AT_ONCE, CHECKS_OF_NETWORK = 8, 2


def login_routes(logins: Logins, *, draw: DrawLogin) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    slots = FairSlots(SlotLimits(CHECKS_AT_ONCE, of_client=CHECKS_OF_NETWORK))

    @routes.get(LOGIN, response_class=HTMLResponse)
    def show_login(next: str = "/", changed: str = "") -> HTMLResponse:
        return login_page(draw(local(next), "", is_changed=bool(changed)), 200)

    @routes.post(LOGIN, response_class=HTMLResponse)
    async def log_in(
        request: Request,
        name: Annotated[str, Form(max_length=MAX_CHARACTERS)] = "",
        password: Annotated[str, Form(max_length=MAX_CHARACTERS)] = "",
        next: Annotated[str, Form(max_length=10 * MAX_CHARACTERS)] = "/",
    ) -> Response:
        address = client_address(request.scope)
        browser = browser_in_words(request.headers.get("user-agent", ""))
        try:
            async with slots.turn(network_of(address) or address):
                token = await run_in_threadpool(logins.log_in, name.strip(), password, address=address, browser=browser)
        except (LoginRequiredError, ThrottledError) as error:
            refused = login_page(draw(local(next), str(error), name=name.strip()), error.status)
            if isinstance(error, ThrottledError):
                refused.headers["Retry-After"] = str(error.retry_after_s)
            return refused
        return logged_in(request, token, local(next), logins)

    @routes.post("/logout")
    def log_out(request: Request) -> Response:
        token = session_token(request.headers)
        if token is not None:
            logins.log_out(token)
        answer = RedirectResponse(LOGIN, 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return answer

    return routes


def logged_in(request: Request, token: str, address: str, logins: Logins) -> Response:
    """Redirect to `address`, which must be local (see `local`), and set the session cookie."""
    answer = RedirectResponse(address, 303)
    answer.set_cookie(
        COOKIE,
        token,
        max_age=int(logins.lifetime.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


def local(address: str) -> str:
    """`address` if it is a path on this server, otherwise `/`. For browsers `//host` and `/\\host` are other hosts."""
    is_local = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_local and address.isprintable() else "/"


def login_page(html: str, status: int) -> HTMLResponse:
    return HTMLResponse(html, status, headers={"Cache-Control": "no-store"})
