"""The account page of the current user: password, sessions, API keys and quotas. The caller passes the function that
renders the HTML.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.access.account_service import AccountService
from app.api.access import LOGIN
from app.api.problems import set_retry_after
from app.errors import GircseError, InputError
from app.types.access import RoleName
from app.types.account_view import AccountView
from app.types.documents import utc_now

ACCOUNT = "/account"
MAX_CHARACTERS = 1_000
DrawAccount = Callable[[AccountView], str]
Password = Annotated[str, Form(max_length=MAX_CHARACTERS)]


def account_page_routes(accounts: AccountService, *, draw: DrawAccount) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    def page(*, new_key: str = "", error: GircseError | None = None) -> HTMLResponse:
        me = accounts.me()
        view = AccountView(
            me,
            [session for session in accounts.sessions(me.name) if session.user == me.name],
            accounts.quota_use(),
            [key for key in accounts.api_keys() if key.user == me.name and key.revoked_at is None],
            has_password=accounts.has_own_password(),
            new_key=new_key,
            error=str(error or ""),
        )
        answer = HTMLResponse(draw(view), error.status if error else 200, headers={"Cache-Control": "no-store"})
        if error is not None:
            set_retry_after(answer, error)
        return answer

    @routes.get(ACCOUNT, response_class=HTMLResponse)
    def show_account() -> HTMLResponse:
        return page()

    @routes.post(f"{ACCOUNT}/password", response_class=HTMLResponse)
    def change_password(current: Password = "", new: Password = "", again: Password = "") -> Response:
        try:
            if new != again:
                raise InputError("The two new passwords differ. Enter the same one twice.")
            accounts.change_own_password(current, new)
        except GircseError as error:
            return page(error=error)
        return RedirectResponse(f"{LOGIN}?next={ACCOUNT}&changed=1", 303)

    @routes.post(f"{ACCOUNT}/keys", response_class=HTMLResponse)
    def add_key(
        label: Annotated[str, Form(max_length=MAX_CHARACTERS)] = "",
        role: Annotated[RoleName, Form()] = RoleName.READER,
        days: Annotated[int, Form(ge=1, le=3_650)] = 90,
    ) -> HTMLResponse:
        try:
            _, secret = accounts.add_key(
                label=label.strip(), role=role.role, expires_at=utc_now() + timedelta(days=days)
            )
        except GircseError as error:
            return page(error=error)
        return page(new_key=secret)

    @routes.post(f"{ACCOUNT}/keys/revoke")
    def revoke_key(key_id: Annotated[str, Form(max_length=100)]) -> Response:
        accounts.revoke_key(key_id)
        return RedirectResponse(ACCOUNT, 303)

    _add_session_forms(routes, accounts)
    return routes


def _add_session_forms(routes: APIRouter, accounts: AccountService) -> None:
    @routes.post(f"{ACCOUNT}/sessions/end")
    def end_session(session_id: Annotated[str, Form(max_length=100)]) -> Response:
        accounts.end_session(session_id)
        return RedirectResponse(ACCOUNT, 303)

    @routes.post(f"{ACCOUNT}/sessions/end-others")
    def end_other_sessions() -> Response:
        accounts.end_other_sessions()
        return RedirectResponse(ACCOUNT, 303)
