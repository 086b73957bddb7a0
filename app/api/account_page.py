"""The account page of the current user: sessions and quotas. The caller passes the function that renders the HTML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Form, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.access.account_service import AccountService
from app.types.access import Principal, WebSession
from app.types.quotas import QuotaUse

ACCOUNT = "/account"
DrawAccount = Callable[[Principal, list[WebSession], list[QuotaUse]], str]


def account_page_routes(accounts: AccountService, *, draw: DrawAccount) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(ACCOUNT, response_class=HTMLResponse)
    def show_account() -> HTMLResponse:
        me = accounts.me()
        page = draw(me, accounts.sessions(me.name), accounts.quota_use())
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})

    @routes.post(f"{ACCOUNT}/sessions/end")
    def end_session(session_id: Annotated[str, Form(max_length=100)]) -> Response:
        accounts.end_session(session_id)
        return RedirectResponse(ACCOUNT, 303)

    @routes.post(f"{ACCOUNT}/sessions/end-others")
    def end_other_sessions() -> Response:
        accounts.end_other_sessions()
        return RedirectResponse(ACCOUNT, 303)

    return routes
