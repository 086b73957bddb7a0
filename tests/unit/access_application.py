"""A small service with access control: one visible and one hidden collection, and a user of each role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.access.accounts import Accounts
from app.settings import Settings
from app.types.access import Role, Scope
from app.wiring.openai import ForwardingSource
from app.wiring.remote import RemoteEmbedder
from app.wiring.web import open_web
from embedder.server.openai_routes import openai_routes

ADMIN_SECRET = "gs_the-secret-of-the-admin-of-this-test"
OWN, HIDDEN = "own", "hidden"
MARKER = "zebrafish"  # stands in all that is hidden


@dataclass(frozen=True)
class AccessApplication:
    """`keys` are by the names of WHO."""

    application: Any
    app: FastAPI
    client: TestClient
    accounts: Accounts
    keys: Mapping[str, str]

    def client_at(self, address: str) -> TestClient:
        return TestClient(self.app, base_url="http://127.0.0.1", follow_redirects=False, client=(address, 50_000))

    def as_(self, who: str | None) -> dict[str, str]:
        return {} if who is None else {"authorization": f"Bearer {self.keys[who]}"}


# Name → role, collections of the user, collections of the key.
WHO: Mapping[str, tuple[Role, str, str]] = {
    "reader of own": (Role.READER, "own*", "*"),
    "editor of own": (Role.EDITOR, "own*", "*"),
    "editor of all with a key for own": (Role.EDITOR, "*", "own*"),
    "reader of all": (Role.READER, "*", "*"),
    "editor of all": (Role.EDITOR, "*", "*"),
    "admin": (Role.ADMIN, "*", "*"),
}


@contextmanager
def open_controlled_web(application: Any, **changes: Any) -> Iterator[FastAPI]:
    """Not yet started."""
    known = {"access_control": True, "admin_secret": ADMIN_SECRET, "mcp": True}
    settings = Settings(home=application.services.settings.home, **{**known, **changes})
    away = ForwardingSource(
        RemoteEmbedder("http://127.0.0.1:1"), settings
    )  # a toy gives no vectors to OpenAI's clients
    routes = nullcontext(openai_routes(away))
    with (
        mock.patch("app.wiring.web.open_openai_routes", return_value=routes),
        open_web(replace(application.services, settings=settings)) as app,
    ):
        yield app


@contextmanager
def open_access_application(application: Any) -> Iterator[AccessApplication]:
    accounts = Accounts(application.services.catalog.access, admin_secret=ADMIN_SECRET)
    keys = {}
    for number, (who, (role, of_user, of_key)) in enumerate(WHO.items()):
        name = f"user-{number}"
        accounts.add_user(name, role=role, collections=[of_user], password=f"password of {number}")
        _, keys[who] = accounts.add_key(name, collections=[of_key], scopes=[Scope.ACCESS] if role is Role.ADMIN else ())
    with (
        open_controlled_web(application) as app,
        TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as client,
    ):
        yield AccessApplication(application, app, client, accounts, keys)
