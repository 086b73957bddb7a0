"""A service with access control as people and programs meet it: the command line, a real browser, HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import AXE_SCRIPTS, DESKTOP, PHONE, structure_faults, violations
from gircse_program import Gircse
from openid_provider import CLIENT, SECRET, OpenIdProvider, openid_provider
from patience import PATIENCE_S
from playwright.sync_api import Browser, ViewportSize, expect
from playwright.sync_api import Error as PlaywrightError
from postgres_server import free_port

PASSWORD = "a long enough password"
TEXTS = {"letters": "The ferry was late again, and nobody told us anything.", "ledger": "Paid in full in zebrafish."}
pytestmark = pytest.mark.xdist_group("access-control")


@dataclass(frozen=True)
class Application:
    gircse: Gircse
    url: str
    log: Path

    @property
    def admin_secret(self) -> str:
        return (self.gircse.home / "admin-secret").read_text().strip()

    def client(self, key: str | None) -> httpx.Client:
        return httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=PATIENCE_S,
            trust_env=False,
        )


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Two collections; anna may read one of them, by a password and a key. Others sign in by an OpenID provider."""
    folder, port = tmp_path_factory.mktemp("access"), free_port()
    url = f"http://127.0.0.1:{port}"
    with openid_provider(f"{url}/login/openid/callback") as provider:
        settings = {
            "GIRCSE_ACCESS_CONTROL": "true",
            "GIRCSE_LOG_LEVEL": "info",
            "GIRCSE_PUBLIC_URL": url,
            "GIRCSE_OIDC_ISSUER": provider.issuer,
            "GIRCSE_OIDC_CLIENT_ID": CLIENT,
            "GIRCSE_OIDC_CLIENT_SECRET": SECRET,
            "GIRCSE_OIDC_LABEL": "Example Login",
            "GIRCSE_OIDC_ALLOWED": "groups=search-users",
            "GIRCSE_OIDC_COLLECTIONS": "letters",
        }
        yield from _served(Gircse(home=folder / "home", settings=settings), folder / "up.log", port)


def _served(gircse: Gircse, log: Path, port: int) -> Iterator[Application]:
    with gircse.serving("--port", str(port), log=log) as server:
        application = Application(gircse, server.url, log)
        with application.client(application.admin_secret) as admin:
            for name, text in TEXTS.items():
                assert admin.post("/api/v1/collections", json={"name": name}).status_code == 201
                body = {"collection": name, "text": text}
                job = admin.post("/api/v1/documents", json=body).json()["job"]["id"]
                with admin.stream("GET", f"/api/v1/jobs/{job}/events") as events:
                    assert '"done"' in "".join(events.iter_text())
            new = {"name": "anna", "role": "reader", "collections": ["letters"], "password": PASSWORD}
            assert admin.post("/api/v1/users", json=new).status_code == 201
        yield application


@pytest.fixture(scope="module")
def key(application: Application) -> str:
    return application.gircse.call("keys", "add", "anna", "--label", "tests").stdout.splitlines()[0]


def test_only_the_path_of_the_secret_is_told(application: Application) -> None:
    secret = application.gircse.home / "admin-secret"
    assert oct(secret.stat().st_mode & 0o777) == "0o600"
    said = application.log.read_text()
    assert application.admin_secret not in said


def test_programs_show_a_key(application: Application, key: str) -> None:
    question = {"query": "a late boat", "collection": "letters"}
    with application.client(None) as nobody, application.client(key) as anna:
        assert nobody.post("/api/v1/search", json=question).status_code == 401
        found = anna.post("/api/v1/search", json=question)
        assert found.json()["hits"][0]["chunk"]["text"] == TEXTS["letters"]
        hidden = anna.post("/api/v1/search", json={**question, "collection": "ledger"})
        assert hidden.status_code == 404
        assert "There are: letters." in hidden.json()["detail"]
        assert anna.delete("/api/v1/collections/letters").status_code == 403
        assert anna.get("/metrics").status_code == 403
        embed = {"model": "gircse-small", "input": "a late boat"}
        refused, embedded = nobody.post("/v1/embeddings", json=embed), anna.post("/v1/embeddings", json=embed)
        assert refused.json()["error"]["code"] == "invalid_api_key"
        assert len(embedded.json()["data"][0]["embedding"]) == 384
        assert nobody.get("/v1/models").status_code == 401
        assert [each.get("/readyz").status_code for each in (nobody, anna)] == [200, 200]


def test_a_revoked_key_is_refused_by_the_running_server(application: Application) -> None:
    key = application.gircse.call("keys", "add", "anna").stdout.splitlines()[0]
    with application.client(key) as anna:
        assert anna.get("/api/v1/me").json()["name"] == "anna"
        application.gircse.call("keys", "revoke", key.split("_")[1])
        assert anna.get("/api/v1/me").status_code == 401


def test_a_key_in_an_address_is_refused_and_not_logged(application: Application, key: str) -> None:
    with application.client(None) as client:
        for name in ("api_key", "access_token", "x"):
            answer = client.get("/api/v1/me", params={name: key})
            assert answer.status_code == 400
            assert "Revoke that key" in answer.json()["detail"]
    assert key not in application.log.read_text()
    assert key[16:] not in application.log.read_text()


@pytest.mark.usefixtures("key")
def test_what_people_did_can_be_read(application: Application) -> None:
    said = application.gircse.call("audit", "--limit", "100", "--json").stdout
    for action in ("collection.created", "user.added", "key.added"):
        assert action in said
    assert PASSWORD not in said


def test_it_listens_to_the_network_only_with_access_control(tmp_path: Path) -> None:
    open_to_all = Gircse(home=tmp_path / "home", settings={"GIRCSE_HOST": "0.0.0.0"})
    said = open_to_all.call("up", code=1).output
    assert "GIRCSE_ACCESS_CONTROL=true GIRCSE_HOST=0.0.0.0 gircse up" in said
    assert not (tmp_path / "home" / "catalog.db").exists()


def test_people_log_in_and_out(application: Application, chromium: Browser) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{application.url}/?q=boat&c=letters")
        expect(page).to_have_url(re.compile(r"/login\?next="))
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("Name or password is wrong.")
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(re.compile(r"/\?q=boat&c=letters"))
        expect(page.locator(".hit")).to_have_count(1)
        expect(page.locator("[data-account]")).to_have_text("anna")
        cookie = next(each for each in context.cookies() if each["name"] == "gircse_session")
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        page.goto(f"{application.url}/about")
        expect(page.get_by_text("letters")).to_have_count(1)
        expect(page.get_by_text("ledger")).to_have_count(0)
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{application.url}/login")
        context.add_cookies([cookie])
        page.goto(application.url)
        expect(page).to_have_url(re.compile("/login"))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_reader_is_told_what_they_may_do_and_sees_no_button_that_is_refused(
    application: Application, chromium: Browser, size: ViewportSize
) -> None:
    with chromium.new_context(viewport=size, locale="de-DE") as context:
        page = context.new_page()
        page.goto(f"{application.url}/login?next=/documents?c=ledger")
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Passwort").fill(PASSWORD)
        page.get_by_label("Passwort").press("Enter")
        expect(page.locator("table.documents tbody tr")).to_have_count(1)
        expect(page.get_by_text("brauchen Sie die Rolle")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("„ledger“ gibt es nicht, oder Sie haben keinen Zugriff")
        for refused in ("#uploader", "#add-urls", "#sources-panel", "#collection-settings", "#new-collection"):
            expect(page.locator(refused)).to_be_hidden()
        expect(page.locator(".document-buttons button")).to_be_hidden()
        bars = [page.locator(each).bounding_box() for each in (".site-header .account", ".theme-switch")]
        assert bars[0] is not None
        assert bars[1] is not None
        assert abs(bars[0]["y"] - bars[1]["y"]) < 20  # side by side
        last = page.locator(".site-header nav a").last.bounding_box()
        assert last is not None
        assert last["x"] + last["width"] <= size["width"]
        page.goto(f"{application.url}/evaluate?c=letters")
        expect(page.get_by_text("brauchen Sie die Rolle")).to_be_visible()
        expect(page.locator("#evaluate-start")).to_be_hidden()
        expect(page.get_by_role("heading", name="Diese Sammlung hat noch keine Urteile")).to_be_visible()
        expect(page.locator(".for-editors")).to_be_hidden()  # it says how to judge and import
        page.goto(f"{application.url}/?q=boat&c=letters")
        expect(page.locator(".hit")).to_have_count(1)
        expect(page.locator(".thumbs")).to_be_hidden()


def test_people_sign_in_by_a_provider_without_scripts(application: Application, chromium: Browser) -> None:
    OpenIdProvider.current.person["preferred_username"] = "clara"
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{application.url}/account")
        page.get_by_role("link", name="Sign in with Example Login").click()
        expect(page).to_have_url(f"{application.url}/account")
        expect(page.get_by_role("heading", name="clara, reader")).to_be_visible()
        assert [each["name"] for each in context.cookies()] == ["gircse_session"]


@pytest.mark.skipif(not AXE_SCRIPTS, reason="axe-core is not here")
@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)], ids=["desktop", "phone"])
def test_pages_of_logins_are_accessible(
    application: Application, chromium: Browser, scheme: Any, size: ViewportSize
) -> None:
    def judge(name: str) -> None:
        assert structure_faults(page, name) == []
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    with chromium.new_context(color_scheme=scheme, viewport=size) as context:
        page = context.new_page()
        page.goto(f"{application.url}/login/openid/callback")  # which says what went wrong, too
        expect(page.get_by_role("alert")).to_contain_text("Start again")
        judge("Log in")
        page.goto(f"{application.url}/login?next=/account")
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="anna, reader")).to_be_visible()
        page.get_by_label("What the key is for").fill("nightly export")
        page.get_by_role("button", name="Create key").click()
        key = page.get_by_label("Your new key").input_value()
        with application.client(key) as program:
            assert program.get("/api/v1/me").json()["name"] == "anna"
        judge("Your account")
        page.get_by_role("button", name="Revoke nightly export").click()
        expect(page.get_by_text("nightly export")).to_have_count(0)
        page.get_by_label("Current password").fill("wrong")
        page.get_by_label("New password, at least 10 characters").fill(PASSWORD)
        page.get_by_label("New password again").fill(PASSWORD)
        page.get_by_role("button", name="Change password").click()
        expect(page.get_by_role("alert")).to_have_text("The current password is wrong.")
        judge("Your account")


def test_a_page_whose_session_has_ended_leads_to_where_one_logs_in(application: Application, chromium: Browser) -> None:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{application.url}/login?next=https://attacker.invalid/")
        page.get_by_label("Name").fill("admin")
        page.get_by_label("Password").fill(application.admin_secret)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{application.url}/")
        query = page.locator("#query textarea")
        expect(query).to_be_visible()
        page.wait_for_load_state("networkidle")
        context.clear_cookies()
        with suppress(PlaywrightError):  # what the page asks for by itself may have led there already
            query.fill("ferry", timeout=2_000)
            query.press("Enter", timeout=2_000)
        expect(page).to_have_url(re.compile("/login"))


def test_another_site_cannot_log_anybody_in_or_out(application: Application) -> None:
    with application.client(None) as client:
        form = {"name": "anna", "password": PASSWORD}
        for headers in (
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "https://attacker.invalid"},
            {"origin": "null"},
        ):
            assert client.post("/login", data=form, headers=headers).status_code == 403
            assert client.post("/logout", headers=headers).status_code == 403
        answer = client.post("/login", data=form, headers={"origin": application.url})
        assert answer.status_code == 303
        assert os.linesep not in answer.headers["location"]
