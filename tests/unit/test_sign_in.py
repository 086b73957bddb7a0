"""Signing in by an OpenID provider, over HTTP from end to end: a real provider, and what somebody might try."""

from __future__ import annotations

import base64
import hmac
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from access_application import ADMIN_SECRET, open_controlled_web
from api_application import api_of, authorized
from fastapi import FastAPI
from fastapi.testclient import TestClient
from flask import Response, jsonify
from joserfc import jwt
from openid_provider import ANNA, CLIENT, PUBLIC_CLIENT, SECRET, OpenIdProvider, new_key, openid_provider
from patience import PATIENCE_S
from typer.testing import CliRunner

from app.access.accounts import Accounts
from app.access.pending_sign_in import PendingSignIn, opened
from app.api.sign_in import PENDING_COOKIE
from app.commands.access import users
from app.commands.wiring import open_catalog
from app.errors import ConflictError, ForbiddenError, InputError, UnknownUserError, UntrustedSignInError
from app.settings import Settings
from app.testing import ToyEmbedder
from app.types.access import Identity, Principal, Role, acting_as
from app.types.documents import utc_now
from app.wiring.access import open_login_methods, provider_of
from ui.login_page import login_drawer

PUBLIC_URL = "https://search.example.org"
CALLBACK = f"{PUBLIC_URL}/login/openid/callback"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@dataclass
class Scene:
    """A service with sign-in, its provider, and a browser at the service."""

    provider: OpenIdProvider
    toy: Any
    accounts: Accounts
    app: FastAPI

    def browser(self, address: str = "10.0.0.1") -> TestClient:
        return TestClient(
            self.app,
            base_url=PUBLIC_URL,
            follow_redirects=False,
            client=(address, 50_000),
            headers={"user-agent": FIREFOX},
        )

    def begin(self, browser: TestClient, way: str = "/") -> str:
        """The address at the provider."""
        answer = browser.get("/login/openid", params={"next": way})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def come_back(self, url: str) -> str:
        """From the provider: the address that the browser is sent to."""
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def sign_in(self, browser: TestClient, way: str = "/") -> httpx.Response:
        return browser.get(self.come_back(self.begin(browser, way)))

    @property
    def catalog(self) -> Any:
        return self.toy.services.catalog


def settings_of(provider: OpenIdProvider, **changes: Any) -> dict[str, Any]:
    return {
        "access_control": True,
        "admin_secret": ADMIN_SECRET,
        "public_url": PUBLIC_URL,
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_label": "Example Login",
        "oidc_allowed": "groups=search-*, email=*@example.org",
        "oidc_editors": "groups=search-editors",
        "oidc_admins": "groups=search-admins",
        "oidc_collections": "own*",
        **changes,
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    with openid_provider(CALLBACK) as provider:
        yield provider


@pytest.fixture(scope="module")
def lasting_scene(
    provider: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any
) -> Iterator[Scene]:
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("sign-in"), opened, embedder=ToyEmbedder())
        app = opened.enter_context(open_controlled_web(toy, **settings_of(provider)))
        yield Scene(provider, toy, Accounts(toy.services.catalog.access, admin_secret=ADMIN_SECRET), app)


@pytest.fixture
def scene(lasting_scene: Scene) -> Iterator[Scene]:
    """Without users, and with an honest provider."""
    yield lasting_scene
    lasting_scene.provider.behave()
    for user in lasting_scene.accounts.ledger.users():
        if user.name != "admin":
            lasting_scene.accounts.remove_user(user.name)


@pytest.fixture
def scene_of(scene: Scene) -> Iterator[Any]:
    """The same catalog behind an API with other settings; it has no pages, which take a second to build."""
    with ExitStack() as opened:

        def build(**changes: Any) -> Scene:
            services = scene.toy.services
            settings = Settings(home=services.settings.home, **settings_of(scene.provider, **changes))
            login_methods = opened.enter_context(open_login_methods(replace(services, settings=settings)))
            app = api_of(
                services, logins=login_methods.logins, sign_in=login_methods.sign_in, draw_login=login_drawer()
            )
            return replace(scene, app=app)

        yield build


def test_a_first_sign_in_makes_a_user_and_a_session_as_a_password_does(scene: Scene) -> None:
    browser = scene.browser()
    page = browser.get("/login?next=/documents%3Fc%3Down").text
    link = re.search(r'<a class="button" href="([^"]*)">Sign in with Example Login</a>', page)
    assert link is not None
    began = browser.get(link[1])
    pending = began.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Secure", "Path=/login/openid", "Max-Age=600"} <= set(pending.split("; "))
    asked = {name: values[0] for name, values in parse_qs(urlsplit(began.headers["location"]).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert (asked["redirect_uri"], asked["scope"]) == (CALLBACK, "openid profile email")
    finished = browser.get(scene.come_back(began.headers["location"]))
    assert (finished.status_code, finished.headers["location"]) == (303, "/documents?c=own")
    kept = finished.headers.get_list("set-cookie")
    assert any(each.startswith(f'{PENDING_COOKIE}=""; ') and "Max-Age=0" in each for each in kept)
    session = next(each for each in kept if each.startswith("gircse_session="))
    assert {"HttpOnly", "SameSite=lax", "Secure", "Path=/"} <= set(session.split("; "))
    me = browser.get("/api/v1/me").json()
    assert (me["name"], me["role"], me["collections"]) == ("anna", "reader", ["own*"])
    (listed,) = browser.get("/api/v1/sessions").json()
    assert (listed["user"], listed["browser"], listed["address"]) == ("anna", "Firefox on Linux", "10.0.0.1")
    noted = [(each.action, each.actor, dict(each.detail)) for each in scene.catalog.access.audit_entries(actor="anna")]
    added = {"role": "reader", "by": "openid", "subject": ANNA["sub"]}
    assert noted == [("login", "anna", {"by": "openid"}), ("user.added", "anna", added)]
    assert scene.catalog.access.identities() == [(Identity(scene.provider.issuer, ANNA["sub"]), "anna")]
    browser.post("/logout")
    assert browser.get("/api/v1/me").status_code == 401
    assert not scene.catalog.access.web_sessions("anna")


def test_a_person_is_known_by_issuer_and_subject_alone(scene: Scene) -> None:
    assert scene.sign_in(scene.browser()).status_code == 303
    scene.accounts.change_user("anna", role=Role.EDITOR)
    scene.provider.person |= {"preferred_username": "other", "groups": ["search-admins"]}
    browser = scene.browser()
    assert scene.sign_in(browser).status_code == 303
    me = browser.get("/api/v1/me").json()
    assert (me["name"], me["role"]) == ("anna", "editor")
    scene.provider.person = ANNA | {"sub": "another"}
    refused = scene.sign_in(scene.browser())
    assert refused.status_code == 409
    assert "`gircse users connect anna another`" in refused.text
    assert [user.name for user in scene.accounts.ledger.users()] == ["admin", "anna"]


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["search-editors"], Role.EDITOR), (["x", "search-admins", "search-editors"], Role.ADMIN), (["search-x"], None)],
)
def test_groups_give_new_users_their_role(scene: Scene, groups: list[str], role: Role | None) -> None:
    scene.provider.person["groups"] = groups
    assert scene.sign_in(scene.browser()).status_code == 303
    assert scene.accounts.ledger.user("anna").role is (role or Role.READER)


@pytest.mark.parametrize(
    ("person", "may"),
    [
        ({"groups": "search-users"}, True),
        ({"groups": ["staff"]}, False),
        ({"groups": [7, None]}, False),
        ({"email": "Anna@Example.org", "email_verified": True}, True),
        ({"email": "anna@example.org", "email_verified": False}, False),
        ({"email": "anna@example.org"}, False),
        ({"email": "anna@example.org.attacker.invalid", "email_verified": True}, False),
    ],
)
def test_those_who_may_come_in_are_told_by_rules(scene: Scene, person: dict[str, Any], may: bool) -> None:
    scene.provider.person = {"sub": "1", "preferred_username": "anna", **person}
    answer = scene.sign_in(scene.browser())
    assert answer.status_code == (303 if may else 403)
    assert len(scene.accounts.ledger.users()) == (2 if may else 1)
    if not may:
        assert "not allowed to sign in here" in answer.text
        assert "gircse_session" not in answer.headers.get("set-cookie", "")


def test_a_disabled_user_stays_out_and_the_session_ends(scene: Scene) -> None:
    browser = scene.browser()
    assert scene.sign_in(browser).status_code == 303
    scene.accounts.change_user("anna", is_disabled=True)
    assert browser.get("/api/v1/me").status_code == 401
    refused = scene.sign_in(scene.browser())
    assert (refused.status_code, "is disabled here" in refused.text) == (403, True)
    failed = scene.catalog.access.audit_entries(actions=["login.failed"], limit=1)[0]
    assert (failed.actor, failed.subject, failed.detail["subject"]) == ("Anna", "10.0.0.1", ANNA["sub"])


@pytest.mark.parametrize("name", ["admin", "anna"])
def test_a_name_that_is_taken_is_not_taken_over(scene: Scene, name: str) -> None:
    if name != "admin":
        scene.accounts.add_user(name, role=Role.ADMIN, password="a long password")
    scene.provider.person |= {"preferred_username": name, "sub": "o'brien; rm -rf"}
    refused = scene.sign_in(scene.browser())
    assert refused.status_code == 409
    assert f"The user {name} already exists" in refused.text
    assert not scene.catalog.access.identities()
    if name != "admin":
        scene.accounts.connect_user(name, Identity(scene.provider.issuer, "o'brien; rm -rf"))
        browser = scene.browser()
        assert scene.sign_in(browser).status_code == 303
        assert browser.get("/api/v1/me").json()["role"] == "admin"
        scene.accounts.disconnect_user(name)
        assert browser.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"preferred_username": "Ännchen"}, "is not a valid user name here"),
        ({"preferred_username": "<i>x</i>"}, "is not a valid user name here"),
        ({"preferred_username": None}, "did not send your name"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(scene: Scene, claims: dict[str, Any], said: str) -> None:
    scene.provider.person |= claims
    refused = scene.sign_in(scene.browser())
    assert (refused.status_code, said in refused.text, "<i>" in refused.text) == (403, True, False)


def test_other_settings(scene: Scene, scene_of: Any) -> None:
    """Nobody becomes a user; users are named by their email; a client without a secret; a secret in the form."""
    refused = (closed := scene_of(oidc_create_users=False)).sign_in(closed.browser())
    assert (refused.status_code, "No user here is linked" in refused.text) == (403, True)
    named = scene_of(oidc_name_claim="email", oidc_client_id=PUBLIC_CLIENT, oidc_client_secret=None)
    scene.provider.person |= {"email": "Anna@x.org"}
    assert "has not verified" in named.sign_in(named.browser()).text
    scene.provider.person["email_verified"] = True
    assert named.sign_in(named.browser()).status_code == 303
    assert scene.accounts.ledger.user("anna@x.org")
    scene.provider.token_auth = ("client_secret_post",)
    posting = scene_of()
    assert posting.sign_in(posting.browser()).status_code == 303


@pytest.mark.parametrize(
    "way", ["https://attacker.invalid/", "//attacker.invalid", "/\\attacker.invalid", "javascript:x", "/a\r\nb: c"]
)
def test_the_way_on_stays_on_this_server(scene: Scene, way: str) -> None:
    assert scene.sign_in(scene.browser(), way).headers["location"] == "/"


# What somebody might try


def test_an_answer_belongs_to_the_browser_that_asked(scene: Scene) -> None:
    victim, attacker = scene.browser(), scene.browser()
    back = scene.come_back(scene.begin(attacker))
    scene.begin(victim)
    for browser in (victim, scene.browser()):  # with another state, and without any
        refused = browser.get(back)
        assert refused.status_code == 401
        assert "Start again" in refused.text
        assert browser.get("/api/v1/me").status_code == 401
    kept = attacker.cookies[PENDING_COOKIE]
    forged = scene.browser()
    for changed in (kept[:-1] + ("0" if kept[-1] != "0" else "1"), "A" + kept[1:], kept.partition(".")[0], "", "ä.ü"):
        answer = forged.get(back, headers={"cookie": f"{PENDING_COOKIE}={changed}".encode("latin-1")})
        assert answer.status_code == 401, changed
    assert attacker.get(back).status_code == 303


def test_an_answer_under_another_state_asks_the_provider_nothing(scene: Scene) -> None:
    browser = scene.browser()
    back = scene.come_back(scene.begin(browser))
    state = parse_qs(urlsplit(back).query)["state"][0]
    refused = browser.get(back.replace(state, "0" * len(state)))
    assert (refused.status_code, scene.provider.asked["/token"]) == (401, 0)


def test_a_sign_in_that_takes_too_long_is_begun_again() -> None:
    now, key = utc_now(), b"key"
    pending = PendingSignIn.begin("/documents", now=now)
    assert opened(pending.sealed(key), key, now=now + timedelta(minutes=9, seconds=59)) == pending
    clock_back = now - timedelta(minutes=10)
    assert opened(pending.sealed(key), key, now=clock_back) == pending
    for sealed, then in (
        (pending.sealed(key), now + timedelta(minutes=10)),
        (pending.sealed(key), clock_back - timedelta(seconds=1)),
        (pending.sealed(b"other"), now),
    ):
        with pytest.raises(UntrustedSignInError):
            opened(sealed, key, now=then)


def test_a_code_is_taken_once(scene: Scene) -> None:
    browser = scene.browser()
    url = scene.begin(browser)
    kept = browser.cookies[PENDING_COOKIE]
    back = scene.come_back(url)
    assert browser.get(back).status_code == 303
    replayed = scene.browser().get(back, headers={"cookie": f"{PENDING_COOKIE}={kept}"})
    assert replayed.status_code == 401
    assert "gircse_session" not in replayed.headers.get("set-cookie", "")


def test_a_code_of_another_sign_in_does_not_fit(scene: Scene) -> None:
    """PKCE: who gets hold of a code lacks the verifier, even with a sign-in of their own."""
    victim, attacker = scene.browser(), scene.browser()
    stolen = parse_qs(urlsplit(scene.come_back(scene.begin(victim))).query)["code"][0]
    state = parse_qs(urlsplit(scene.begin(attacker)).query)["state"][0]
    refused = attacker.get("/login/openid/callback", params={"code": stolen, "state": state})
    assert (refused.status_code, scene.provider.asked["/token"]) == (401, 1)


def changed(**changes: Any) -> Any:
    """An ID token that is right but for these claims; None takes one out."""

    def forge(header: dict[str, Any], claims: dict[str, Any]) -> str:
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        return OpenIdProvider.current.sign(claims)

    return forge


def sealed(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    """By hand: no library signs like this."""
    text = ".".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in (header, claims)
    )
    seal = b"" if secret is None else hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(seal).decode().rstrip('=')}"


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return sealed({"alg": "none"}, claims, None)


def signed_with_the_public_key(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return sealed({**header, "alg": "HS256"}, claims, OpenIdProvider.current.key.as_pem(private=False))


def signed_with_a_published_secret(header: dict[str, Any], claims: dict[str, Any]) -> str:
    secret = b"a secret that everybody reads"
    published = {"kty": "oct", "kid": "oct", "k": base64.urlsafe_b64encode(secret).decode().rstrip("=")}
    OpenIdProvider.current.published = [OpenIdProvider.current.key.as_dict(private=False), published]
    return sealed({"alg": "HS256", "kid": "oct"}, claims, secret)


def signed_by_somebody(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return jwt.encode(header, claims, new_key(header["kid"]))


def signed_by_an_unknown_key(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return jwt.encode({**header, "kid": "nobody knows"}, claims, new_key("nobody knows"))


def with_its_own_key(header: dict[str, Any], claims: dict[str, Any]) -> str:
    key = new_key("first")
    return jwt.encode({**header, "jwk": key.as_dict(private=False)}, claims, key)


def with_changed_claims(header: dict[str, Any], claims: dict[str, Any]) -> str:
    head, _, seal = OpenIdProvider.current.sign(claims).split(".")
    return f"{head}.{OpenIdProvider.current.sign(claims | {'sub': 'admin'}).split('.')[1]}.{seal}"


FORGERIES = {
    "no signature": unsigned,
    "HS256 with the public key": signed_with_the_public_key,
    "HS256 with a published secret": signed_with_a_published_secret,
    "another key of the same name": signed_by_somebody,
    "an unknown key": signed_by_an_unknown_key,
    "a key that it brings along": with_its_own_key,
    "claims of another token": with_changed_claims,
    "something else": lambda header, claims: "not.a.token",
    "two parts": lambda header, claims: "e30.e30",
    "an ocean": lambda header, claims: "a" * 70_000 + ".b.c",
    "no nonce": changed(nonce=None),
    "another nonce": changed(nonce="0" * 64),
    "another audience": changed(aud="other"),
    "audiences without azp": changed(aud=[CLIENT, "other"]),
    "given to another": changed(aud=[CLIENT, "other"], azp="other"),
    "no audience": changed(aud=None),
    "another issuer": changed(iss="https://attacker.invalid"),
    "no issuer": changed(iss=None),
    "expired": changed(exp=int(time.time()) - 61),
    "never expires": changed(exp=None),
    "expires at no time": changed(exp=float("nan")),
    "expires at the end of days": changed(exp=float("inf")),
    "expires at a text": changed(exp="9999999999"),
    "of the future": changed(iat=int(time.time()) + 3600),
    "not yet": changed(nbf=int(time.time()) + 3600),
    "no subject": changed(sub=None),
    "an empty subject": changed(sub=""),
    "a subject that is a list": changed(sub=["anna's id"]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_id_token_that_does_not_hold_is_refused(
    scene: Scene, forgery: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.provider.forge = FORGERIES[forgery]
    browser = scene.browser(address=f"10.1.{len(forgery)}.{sum(map(ord, forgery)) % 250}")
    refused = scene.sign_in(browser)
    assert refused.status_code == 401
    assert "gircse_session" not in refused.headers.get("set-cookie", "")
    assert browser.get("/api/v1/me").status_code == 401
    assert [user.name for user in scene.accounts.ledger.users()] == ["admin"]
    error_id = re.search(r"Error id in the server log: ([0-9a-f]{12})", refused.text)
    assert error_id is not None
    assert error_id[1] in caplog.text


def test_what_is_right_passes_the_same_way(scene: Scene) -> None:
    """Else the forgeries would prove nothing."""
    scene.provider.forge = changed(aud=[CLIENT, "other"], azp=CLIENT, nbf=int(time.time()))
    assert scene.sign_in(scene.browser()).status_code == 303


def test_keys_change(scene: Scene) -> None:
    assert scene.sign_in(scene.browser()).status_code == 303
    before, scene.provider.key = scene.provider.key, new_key("second")
    assert scene.sign_in(scene.browser()).status_code == 303
    scene.provider.asked.clear()
    scene.provider.forge = lambda header, claims: jwt.encode({"alg": "RS256", "kid": before.kid}, claims, before)
    assert scene.sign_in(scene.browser()).status_code == 401  # withdrawn
    assert scene.provider.asked["/keys"] == 1


def test_failures_are_throttled_and_an_outage_is_none(scene: Scene) -> None:
    address = "10.9.9.9"
    scene.provider.answers["/token"] = lambda: Response("{}", 503)
    for _ in range(11):
        assert scene.sign_in(scene.browser(address)).status_code == 503
    del scene.provider.answers["/token"]
    scene.provider.forge = unsigned
    for _ in range(10):
        assert scene.sign_in(scene.browser(address)).status_code == 401
    scene.provider.behave()
    throttled = scene.sign_in(scene.browser(address))
    assert (throttled.status_code, int(throttled.headers["retry-after"]) > 0) == (429, True)
    assert scene.provider.asked["/token"] == 0
    assert scene.sign_in(scene.browser("10.9.9.8")).status_code == 303


def test_a_provider_that_keeps_everybody_waiting_holds_no_more_threads(scene: Scene, scene_of: Any) -> None:
    with mock.patch("app.access.sign_in.AT_ONCE", 1):
        narrow = scene_of()
    browser, asked, goes_on = narrow.browser(), threading.Event(), threading.Event()
    back = narrow.come_back(narrow.begin(browser))

    def wait() -> None:
        asked.set()
        goes_on.wait(PATIENCE_S)
        del scene.provider.answers["/token"]

    scene.provider.answers["/token"] = wait  # type: ignore[assignment]  # then the provider answers itself
    with ThreadPoolExecutor(1) as pool:
        finished = pool.submit(browser.get, back)
        assert asked.wait(PATIENCE_S)
        assert narrow.browser().get("/login/openid").status_code == 503
        goes_on.set()
        assert finished.result(PATIENCE_S).status_code == 303
    assert narrow.begin(narrow.browser())


def slow() -> Response:
    time.sleep(0.6)
    return jsonify({})


DISCOVERY = "/.well-known/openid-configuration"
OUTAGES = {
    "an error": {DISCOVERY: lambda: Response("<html>down</html>", 502)},
    "no JSON": {DISCOVERY: lambda: Response("<html>hello</html>")},
    "a list": {DISCOVERY: lambda: jsonify([])},
    "too much": {DISCOVERY: lambda: Response(b"[" * 600_000)},
    "deep": {DISCOVERY: lambda: Response(b"[" * 100_000)},
    "a redirect": {DISCOVERY: lambda: Response("", 302, {"location": "https://attacker.invalid/"})},
    "too slow": {DISCOVERY: slow},
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_provider_that_is_away_is_told_with_an_id(
    scene_of: Any, scene: Scene, outage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with mock.patch("app.openid.requests.TIMEOUT_S", 0.3):
        fresh = scene_of()
    scene.provider.answers |= OUTAGES[outage]
    refused = fresh.browser().get("/login/openid")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    error_id = re.search(r"is unavailable at the moment.*Error id in the server log: ([0-9a-f]{12})", refused.text)
    assert error_id is not None
    assert error_id[1] in caplog.text
    assert "Traceback" not in refused.text + caplog.text


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://attacker.invalid"},
        {"token_endpoint": "http://login.example.org/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_provider_that_publishes_what_cannot_be_used_is_away(
    scene_of: Any, scene: Scene, said: dict[str, Any]
) -> None:
    scene.provider.metadata = said
    assert scene_of().browser().get("/login/openid").status_code == 503


def test_the_library_is_an_extra(scene: Scene) -> None:
    settings = Settings(home=scene.toy.services.settings.home, **settings_of(scene.provider))
    with mock.patch.dict(sys.modules):
        for name in [each for each in sys.modules if each.startswith(("joserfc", "app.openid"))]:
            del sys.modules[name]
        sys.modules["joserfc"] = None  # type: ignore[assignment]
        with pytest.raises(InputError, match=r"gircse-search\[oidc\]"):
            provider_of(settings)


def test_the_command_line_connects_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIRCSE_HOME", str(tmp_path))

    def run(*words: str) -> Any:
        return CliRunner().invoke(users, words)

    issuer = ("--issuer", "https://login.example.org")
    assert run("add", "anna", "--role", "reader").exit_code == 0
    assert "keys only" in run("list").stdout
    assert isinstance(run("connect", "anna", "0815").exception, InputError)  # which provider?
    assert run("connect", "anna", "0815", *issuer).exit_code == 0
    assert "provider" in run("list").stdout
    for name, error in (("bert", UnknownUserError), ("admin", ConflictError)):
        assert isinstance(run("connect", name, "4711", *issuer).exception, error)
    assert "Removed 1 identities of anna" in run("disconnect", "anna").stdout
    with open_catalog() as catalog:
        assert catalog.access.identities() == []
        noted = [(each.action, each.actor) for each in catalog.access.audit_entries(limit=2)]
    assert noted == [("user.disconnected", "operator"), ("user.connected", "operator")]


@pytest.mark.parametrize(
    ("who", "error"),
    [
        (Principal("bert", Role.EDITOR), ForbiddenError),
        (Principal("bert", Role.ADMIN, key_id="k"), ForbiddenError),  # a key without the scope
        (Principal("bert", Role.ADMIN, ("own-*",)), UnknownUserError),
        (Principal("bert", Role.ADMIN), None),
    ],
)
def test_users_are_connected_by_admins_of_them(scene: Scene, who: Principal, error: type[Exception] | None) -> None:
    scene.accounts.add_user("anna", role=Role.READER)
    accounts = authorized(scene.toy.services).accounts
    identity = Identity("https://login.example.org", "0815")
    for ask in (lambda: accounts.connect_user("anna", identity), lambda: accounts.disconnect_user("anna")):
        with acting_as(who), pytest.raises(error) if error else nullcontext():
            ask()


def test_admins_connect_users_over_http(scene: Scene) -> None:
    scene.accounts.add_user("anna", role=Role.EDITOR)
    admin, path = {"authorization": f"Bearer {ADMIN_SECRET}"}, "/api/v1/users/anna/identities"
    browser, program = scene.browser(), scene.browser()
    assert scene.sign_in(browser).status_code == 409
    identity = {"issuer": scene.provider.issuer, "subject": ANNA["sub"]}
    assert program.post(path, json=identity, headers=admin).status_code == 204
    assert program.get(path, headers=admin).json() == [identity]
    assert scene.sign_in(browser).status_code == 303
    assert browser.get("/api/v1/me").json()["role"] == "editor"
    assert program.delete(path, headers=admin).status_code == 204
    assert (program.get(path, headers=admin).json(), browser.get("/api/v1/me").status_code) == ([], 401)
    for odd in ({"issuer": "https://x.org", "subject": ""}, {"issuer": "https://x.org", "subject": "a\nb"}, {}):
        assert program.post(path, json=odd, headers=admin).status_code == 422
