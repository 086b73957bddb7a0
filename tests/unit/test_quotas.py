"""Quotas of users: what they store and how often they ask, over HTTP and on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from access_application import AccessApplication, open_access_application
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from app.access.quotas import UserQuotas
from app.api.quotas import QuotaGuard
from app.commands.access import with_quotas
from app.errors import InputError, QuotaExceededError, RequestQuotaError, UnavailableError
from app.settings import Settings
from app.testing import ToyEmbedder
from app.types.access import OPERATOR, Principal, Role, acting_as
from app.types.quotas import UNLIMITED, Quotas, QuotaUse

ANNA = Principal("anna", Role.EDITOR)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[AccessApplication]:
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("quotas"), opened, embedder=ToyEmbedder())
        toy.services.library.ensure_collection("own")
        yield opened.enter_context(open_access_application(toy))


def set_quotas(application: AccessApplication, name: str, **quotas: object) -> None:
    body = {"quotas": quotas}
    answer = application.client.patch(f"/api/v1/users/{name}", json=body, headers=application.as_("admin"))
    assert answer.status_code == 200
    assert {quota: answer.json()["quotas"][quota] for quota in quotas} == quotas


def add(application: AccessApplication, text: str, who: str = "editor of own") -> Any:
    body = {"collection": "own", "text": text}
    return application.client.post("/api/v1/documents", json=body, headers=application.as_(who))


def test_documents_beyond_a_quota_are_refused_and_deleting_makes_room(application: AccessApplication) -> None:
    set_quotas(application, "user-1", documents=2, bytes="default")
    first, second, third = (add(application, f"Text {number}.") for number in range(3))
    assert (first.status_code, second.status_code, third.status_code) == (202, 202, 413)
    assert third.headers["content-type"] == "application/problem+json"
    detail = third.json()["detail"]
    assert "user-1 may store 2 documents" in detail
    assert "ask an admin of this server" in detail
    assert add(application, "Text 1.").status_code == 202  # which is there
    assert add(application, "Of another.", "editor of all").status_code == 202
    own = application.client.get("/api/v1/me/usage", headers=application.as_("editor of own")).json()
    told = application.client.get("/api/v1/users/user-1/usage", headers=application.as_("admin")).json()
    assert (
        own[:2]
        == told[:2]
        == [
            {"quota": "bytes", "used": 14, "limit": None},
            {"quota": "documents", "used": 2, "limit": 2},
        ]
    )
    documents = application.client.get("/api/v1/documents?collection=own", headers=application.as_("admin")).json()
    mine = next(each["id"] for each in documents if each["byte_count"] == 7)
    application.client.delete(f"/api/v1/documents/{mine}", headers=application.as_("editor of own"))
    application.application.work_off()
    assert add(application, "Text 2.").status_code == 202
    page = application.client.get("/account", headers=application.as_("editor of own")).text
    assert "<th scope='row'>Documents</th><td data-name='Used'>2</td><td data-name='Limit'>2</td>" in page


def test_a_body_that_cannot_fit_is_refused_before_it_is_read(application: AccessApplication) -> None:
    set_quotas(application, "user-2", bytes=1_000)
    sent = iter([b"never read"])

    def body() -> Iterator[bytes]:
        yield next(sent)

    refused = application.client.post(
        "/api/v1/documents",
        content=body(),
        headers={
            **application.as_("editor of all with a key for own"),
            "content-type": "application/json",
            "content-length": "90000",
        },
    )
    assert refused.status_code == 413
    assert "user-2 may store 1.0 kB and uses 0 bytes; this file has 90.0 kB" in refused.json()["detail"]


def test_requests_beyond_those_of_a_minute_are_refused(application: AccessApplication) -> None:
    set_quotas(application, "user-4", requests=5)
    who = application.as_("editor of all")

    def ask(_: int) -> int:
        return application.client.get("/api/v1/me", headers=who).status_code

    with ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(ask, range(25)))
    assert statuses.count(429) >= 15  # a minute may end in between
    refused = application.client.get("/v1/models", headers=who)
    if refused.status_code == 429:
        assert refused.json()["error"]["code"] == "quota"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    set_quotas(application, "user-4", requests="unlimited")
    assert {ask(0) for _ in range(10)} == {200}


@pytest.fixture
def quotas(toy_services: Any) -> UserQuotas:
    settings = replace_settings(quota_mb=0.001, quota_documents=3, quota_requests=2)
    clock = lambda: datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)  # noqa: E731
    return UserQuotas(toy_services.services.catalog.access, settings, clock=clock)


def replace_settings(**values: Any) -> Settings:
    return Settings(**values)


def test_settings_count_unless_an_admin_gave_something_else(quotas: UserQuotas) -> None:
    assert quotas.use(ANNA) == [
        QuotaUse("bytes", 0, 1_000),
        QuotaUse("documents", 0, 3),
        QuotaUse("requests", 0, 2),
    ]
    own = replace(ANNA, quotas=Quotas(bytes=UNLIMITED, documents=7))
    assert [each.limit for each in quotas.use(own)] == [None, 7, 2]
    assert [each.limit for each in quotas.use(Principal("admin", Role.ADMIN))] == [None, None, None]
    assert quotas.allowance(OPERATOR) is None


def test_requests_are_counted_one_by_one(quotas: UserQuotas) -> None:
    quotas.count_request(ANNA)
    quotas.count_request(ANNA)
    with pytest.raises(RequestQuotaError, match="anna may send 2 requests a minute") as refused:
        quotas.count_request(ANNA)
    assert refused.value.retry_after_s == 30
    quotas.count_request(Principal("bert", Role.READER))
    assert quotas.use(ANNA)[2] == QuotaUse("requests", 3, 2)


def test_a_catalog_that_does_not_respond_is_no_exhausted_quota(toy_services: Any) -> None:
    def clock() -> datetime:
        raise UnavailableError("The catalog does not respond.")

    limited = UserQuotas(toy_services.services.catalog.access, replace_settings(quota_requests=2), clock=clock)
    client = TestClient(QuotaGuard(PlainTextResponse("passed"), quotas=limited))
    with acting_as(ANNA):
        answer = client.get("/v1/models")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


def test_a_body_is_let_in_that_may_replace_a_document(quotas: UserQuotas) -> None:
    quotas.require_room_for_body(ANNA, 60_000)  # most of it may be the form
    with pytest.raises(QuotaExceededError, match="uses 0 bytes"):
        quotas.require_room_for_body(ANNA, 80_000)


def test_quotas_are_read_from_the_command_line() -> None:
    assert with_quotas(Quotas(requests=5), ["bytes=10", "documents=unlimited", "requests=default"]) == Quotas(
        10, UNLIMITED, None
    )
    for wrong in ("bytes", "bytes=-1", "pages=3", "bytes=1e3"):
        with pytest.raises(InputError, match="is not a quota"):
            with_quotas(Quotas(), [wrong])
