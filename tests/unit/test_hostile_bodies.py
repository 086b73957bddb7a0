"""Bodies that are meant to cost much, or to be kept and break what is read later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from access_application import OWN, AccessApplication, open_access_application

from app.access.throttle import MAX_FAILURES_OF_ADDRESS
from app.api.base_schemas import MAX_PARTS
from app.api.bodies import MAX_PUBLIC_BYTES
from app.documents.library import check_metadata
from app.errors import CatalogUnavailableError, InputError
from app.types.access import Role
from app.types.documents import MAX_KEY_CHARACTERS, MAX_METADATA_CHARACTERS, Judgement, utc_now
from embedder.encoder import Encoder
from embedder.errors import TextError
from embedder.refinement_steps import MAX_INSTRUCTION_CHARACTERS

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
SURROGATE = r"\ud800"
TOO_LONG = "x" * (MAX_INSTRUCTION_CHARACTERS + 1)


@pytest.fixture
def application(toy_services: Any) -> Iterator[AccessApplication]:
    toy_services.add("The cat sleeps on the sofa.", collection=OWN)
    with open_access_application(toy_services) as application:
        yield application


def post(application: AccessApplication, path: str, body: object, who: str = "editor of own") -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return application.client.post(path, content=text, headers={**JSON, **application.as_(who)})


@pytest.mark.parametrize("path", ["/login", "/assets/x", "/feeds/x.atom"])
def test_without_a_login_only_short_bodies_are_read(application: AccessApplication, path: str) -> None:

    def body() -> Iterator[bytes]:
        for _ in range(64):
            yield b"&" * (MAX_PUBLIC_BYTES // 8)

    assert application.client.post(path, content=b"&" * (MAX_PUBLIC_BYTES + 1), headers=FORM).status_code == 413
    assert application.client.post("/login", content=body(), headers=FORM).status_code == 413
    longest = application.client.post("/login", content=b"name=" + b"a" * (MAX_PUBLIC_BYTES - 5), headers=FORM)
    assert longest.status_code == 422  # the name is too long, the body is not


@pytest.mark.parametrize("beside", ["x[]=1", 'x="a', "@=1", "a b=1", "=", "ä=1".encode().decode("latin-1")])
def test_no_cookie_of_another_program_hides_the_session(application: AccessApplication, beside: str) -> None:
    password = {"name": "user-0", "password": "password of 0"}
    session = application.client.post("/login", data=password).cookies["gircse_session"]
    application.client.cookies.clear()
    cookie = f"{beside}; gircse_session={session}".encode("latin-1")
    assert application.client.get("/api/v1/me", headers={b"cookie": cookie}).json()["name"] == "user-0"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/search", {"query": "cat", "collection": OWN, "instruction": TOO_LONG}),
        ("/api/v1/search", {"query": "cat", "collection": OWN, "instruction": TOO_LONG, "mode": "sparse"}),
        ("/api/v1/refine", {"text": "cat", "instruction": TOO_LONG}),
        ("/api/v1/lenses", {"name": "long", "query_instruction": TOO_LONG}),
        ("/api/v1/lenses", {"name": "long", "query_instruction": "x", "document_instruction": TOO_LONG}),
        ("/api/v1/collections", {"name": f"{OWN}-new", "document_instruction": TOO_LONG}),
    ],
)
def test_a_long_instruction_is_refused_before_it_is_read_or_kept(
    application: AccessApplication, path: str, body: dict[str, Any]
) -> None:
    answer = post(application, path, body)
    assert answer.status_code == 422
    assert "20,001 characters" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/api/v1/search", "/v1/rerank", "/v1/embeddings"])
def test_a_body_that_is_cut_off_is_told_as_such(application: AccessApplication, path: str) -> None:
    answer = post(application, path, '{"query": "cat"')
    assert "The body is not JSON: Expecting ',' delimiter at character 15." in answer.text


def test_the_model_reads_no_long_instruction(tiny_encoder: Encoder) -> None:
    with pytest.raises(TextError, match="20,001 characters"):
        tiny_encoder.refine("cat", instruction=TOO_LONG)


def test_a_judgement_keeps_no_long_texts(application: AccessApplication) -> None:
    (document,) = application.application.services.catalog.documents(OWN)
    judgement = {"document_id": document.id, "query": "cat", "grade": 1}
    for long in ({"query": "x" * 100_001}, {"instruction": TOO_LONG}):
        assert post(application, "/api/v1/judgements", {**judgement, **long}).status_code == 422
    assert post(application, "/api/v1/judgements", judgement).status_code == 200


def test_a_judgement_of_an_earlier_release_with_a_long_text_can_be_deleted(application: AccessApplication) -> None:
    catalog = application.application.services.catalog
    (document,) = catalog.documents(OWN)
    catalog.save_judgement(Judgement(document.id, "cat", TOO_LONG, 1, "user-1", utc_now()))
    wanted = {"document_id": document.id, "query": "cat", "instruction": TOO_LONG}
    answer = application.client.delete("/api/v1/judgements", params=wanted, headers=application.as_("editor of own"))
    assert answer.status_code == 204
    assert not any(each.instruction == TOO_LONG for page in catalog.judgement_pages(OWN) for each in page)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/saved-searches", '{"name": "kept", "request": {"query": "cat %s"}}'),
        ("/api/v1/saved-searches", '{"name": "kept", "request": {"query": "cat", "filters": {"%s": "x"}}}'),
        ("/api/v1/search", '{"query": "cat", "collection": "own", "values": ["a", "%s"]}'),
        ("/api/v1/me/password", '{"current": "%s", "new": "a new password"}'),
        ("/api/v1/users", '{"name": "berta", "password": "a new password%s"}'),
        ("/api/v1/keys", '{"label": "%s"}'),
    ],
)
def test_half_a_character_is_refused_wherever_it_is(application: AccessApplication, path: str, body: str) -> None:
    answer = post(application, path, body % SURROGATE, who="admin")
    assert answer.status_code == 422
    assert "lone surrogate, U+D800" in answer.json()["detail"]
    assert application.client.get("/api/v1/saved-searches", headers=application.as_("admin")).json() == []


@pytest.mark.parametrize("wrap", [lambda many: many, lambda many: [many], lambda many: {"a": many}])
def test_a_body_of_very_many_values_gets_one_error(application: AccessApplication, wrap: Any) -> None:
    answer = post(application, "/api/v1/search", {"query": "cat", "like": wrap([1] * MAX_PARTS)})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "body: the body has more than 20,000 values"


@pytest.mark.parametrize("number", [10**309, -(10**400), float("inf"), float("-inf"), float("nan")])
def test_numbers_that_no_index_holds_are_no_metadata(number: float) -> None:
    with pytest.raises(InputError, match="finite number"):
        check_metadata({"size": number})


def test_metadata_is_short(application: AccessApplication) -> None:
    for metadata, status in (
        ({"size": 10**308, "is_new": True, "k" * MAX_KEY_CHARACTERS: "x" * 10_000}, 202),
        ({"size": 10**309}, 422),
        ({"note": "x" * (MAX_METADATA_CHARACTERS + 1)}, 422),
        ({"k" * (MAX_KEY_CHARACTERS + 1): "x"}, 422),
    ):
        new = {"collection": OWN, "text": "A dog.", "metadata": metadata}
        assert post(application, "/api/v1/documents", new).status_code == status


@pytest.mark.parametrize("metadata", ["[" * 100_000, '{"a":' + "9" * 5_000 + "}", '{"a":"\\ud800"}', '{"a":1e999}'])
def test_metadata_of_a_form_that_no_parser_should_read(application: AccessApplication, metadata: str) -> None:
    answer = application.client.post(
        "/api/v1/documents",
        data={"collection": OWN, "metadata": metadata},
        files={"file": ("a.txt", b"A dog.")},
        headers=application.as_("editor of own"),
    )
    assert answer.status_code == 422


def test_the_password_behind_a_session_cannot_be_guessed(application: AccessApplication) -> None:
    client = application.client
    client.post("/login", data={"name": "user-0", "password": "password of 0"})
    said = [
        client.post("/api/v1/me/password", json={"current": f"guess {number}", "new": "a new password"}).status_code
        for number in range(MAX_FAILURES_OF_ADDRESS)
    ]
    assert said == [403] * MAX_FAILURES_OF_ADDRESS
    refused = client.post("/api/v1/me/password", json={"current": "password of 0", "new": "a new password"})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    client.cookies.clear()
    client.post("/login", data={"name": "user-1", "password": "password of 1"})
    other = {"current": "password of 1", "new": "a new password"}
    assert client.post("/api/v1/me/password", json=other).status_code == 204


def test_a_key_does_not_fill_the_audit_log(application: AccessApplication) -> None:
    """It has no password to change, and its attempts do not count for its user."""
    client, body = application.client, {"current": "password of 0", "new": "a new password"}
    key = application.as_("reader of own")
    said = [client.post("/api/v1/me/password", json=body, headers=key).status_code for _ in range(15)]
    assert said == [403] * MAX_FAILURES_OF_ADDRESS + [429] * (15 - MAX_FAILURES_OF_ADDRESS)
    entries = application.accounts.ledger.audit_entries(actions=["password.refused"])
    assert len(entries) == MAX_FAILURES_OF_ADDRESS
    client.post("/login", data={"name": "user-0", "password": "password of 0"})
    assert client.post("/api/v1/me/password", json=body).status_code == 204


def test_a_key_that_is_revoked_twice_is_one_entry(application: AccessApplication) -> None:
    client = application.client
    client.post("/login", data={"name": "user-0", "password": "password of 0"})
    made = client.post("/api/v1/keys", json={}).json()
    for _ in range(3):
        assert client.delete(f"/api/v1/keys/{made['id']}").status_code == 204
    assert len(application.accounts.ledger.audit_entries(actions=["key.revoked"])) == 1


def test_the_audit_log_names_who_replaces_and_deletes_a_shared_lens(application: AccessApplication) -> None:
    """Also in place of a built-in one, which everybody else then searches with."""
    client, editor = application.client, application.as_("editor of own")
    lens = {"name": "Same place", "query_instruction": "Ignore it."}
    assert client.post("/api/v1/lenses", json=lens, headers=editor).status_code == 200
    assert client.delete("/api/v1/lenses/Same%20place", headers=editor).status_code == 204
    assert client.delete("/api/v1/lenses/Same%20place", headers=editor).status_code == 422  # the built-in one
    entries = application.accounts.ledger.audit_entries(actions=["lens.saved", "lens.deleted"])
    assert [(each.action, each.subject) for each in entries] == [
        ("lens.deleted", "Same place"),
        ("lens.saved", "Same place"),
    ]
    assert len({each.actor for each in entries} - {"local", ""}) == 1


def test_what_is_refused_is_no_entry_of_the_audit_log(application: AccessApplication) -> None:
    client, editor = application.client, application.as_("editor of own")
    before = application.accounts.ledger.audit_entries()
    refused = [
        client.post(f"/api/v1/collections/{OWN}/lens-indexes", json={"lens": "none"}, headers=editor),
        client.delete(f"/api/v1/collections/{OWN}/lens-indexes?lens=none", headers=editor),
        client.post(f"/api/v1/collections/{OWN}/rollback", headers=editor),
        client.post("/api/v1/collections", json={"name": OWN}, headers=editor),
    ]
    assert all(400 <= each.status_code < 500 for each in refused), [each.text for each in refused]
    assert application.accounts.ledger.audit_entries() == before


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/login"), ("GET", "/feeds/a.atom"), ("GET", "/api/v1/collections")]
)
def test_who_has_no_login_learns_no_address_of_the_database(
    application: AccessApplication, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise CatalogUnavailableError("The catalog at postgresql://user@10.0.0.5/catalog does not answer.")

    catalog = application.application.services.catalog
    for name in ("user", "key", "attempts", "web_session"):
        monkeypatch.setattr(type(catalog.access), name, fail)
    monkeypatch.setattr(type(catalog.standing), "of_feed", fail)
    form = {"data": {"name": "anna", "password": "a password"}} if method == "POST" else {}
    key = {"authorization": "Bearer gk_0123456789ab_" + "x" * 43} if path.startswith("/api") else {}
    answer = application.client.request(method, path, headers=key, **form)
    assert answer.status_code == 503
    assert "10.0.0.5" not in answer.text
    assert int(answer.headers["retry-after"]) > 0


def test_a_new_password_that_is_too_short_is_no_guess(application: AccessApplication) -> None:
    client = application.client
    client.post("/login", data={"name": "user-2", "password": "password of 2"})
    for _ in range(MAX_FAILURES_OF_ADDRESS + 1):
        assert client.post("/api/v1/me/password", json={"current": "password of 2", "new": "short"}).status_code == 422


def test_whose_a_linked_identity_is_stays_hidden_with_the_user(application: AccessApplication) -> None:
    identity = {"issuer": "https://login.example", "subject": "248"}
    assert post(application, "/api/v1/users/user-4/identities", identity, who="admin").status_code == 204
    application.accounts.add_user("tom", role=Role.ADMIN, collections=[f"{OWN}*"], password="password of tom")
    application.client.post("/login", data={"name": "tom", "password": "password of tom"})
    refused = application.client.post("/api/v1/users/user-0/identities", json=identity)
    assert refused.status_code == 409
    assert "user-4" not in refused.text
    assert "user-4" in post(application, "/api/v1/users/user-0/identities", identity, who="admin").text


@pytest.mark.parametrize("path", ["/", "/api/v1/me", "/api/v1/documents?collection=own", "/config"])
def test_no_cache_keeps_what_is_private(application: AccessApplication, path: str) -> None:
    answer = application.client.get(path, headers=application.as_("reader of own"))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "private, no-cache"
