"""What people hear of a fault of the service: only administrators see its addresses and paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from access_application import AccessApplication, open_access_application
from locked_catalog import locked

from app import errors
from app.catalog import lock_waits
from app.errors import message_for_users
from app.types.access import OPERATOR, Principal, Role, acting_as, message_for_caller
from ui.handler_inputs import describe_error

AWAY = "http://127.0.0.1:1"  # the embedding server of the application


@pytest.fixture
def application(toy_services: Any) -> Iterator[AccessApplication]:
    with open_access_application(toy_services) as application:
        yield application


@pytest.mark.parametrize(("who", "is_told"), [("editor of all", False), ("admin", True)])
def test_the_place_of_the_catalog_is_for_administrators(
    application: AccessApplication,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    who: str,
    is_told: bool,
) -> None:
    monkeypatch.setattr(lock_waits, "LOCK_S", 0.1)
    engine = application.application.services.catalog.database.engine
    lens = {"name": "late", "query_instruction": "Identify the delay."}
    application.client.get("/api/v1/me", headers=application.as_(who))  # a key is noted in the catalog once
    with locked(engine):
        answer = application.client.post("/api/v1/lenses", json=lens, headers=application.as_(who))
    assert answer.status_code == 503
    place = engine.url.render_as_string()
    assert (place in answer.text) == is_told
    assert "the log of the service has the reason" in answer.json()["detail"] or is_told
    assert place in caplog.text


@pytest.mark.parametrize(("who", "is_told"), [("reader of all", False), ("admin", True)])
def test_the_address_of_the_embedding_server_is_for_administrators(
    application: AccessApplication, who: str, is_told: bool
) -> None:
    answer = application.client.post(
        "/v1/embeddings", json={"model": "gircse-small", "input": "cat"}, headers=application.as_(who)
    )
    assert answer.status_code == 503
    assert (AWAY in answer.text) == is_told


def test_a_page_tells_a_reader_no_address_and_a_wrong_value_as_it_is() -> None:
    away = errors.CatalogUnavailableError("The catalog at postgresql://db/gircse does not answer.")
    with acting_as(Principal("anna", Role.READER)):
        assert "postgresql" not in describe_error(away)
        assert message_for_caller(errors.InputError("No such thing: 5.")) == "No such thing: 5."
    with acting_as(OPERATOR):
        assert "postgresql" in describe_error(away)


def test_a_busy_server_is_not_called_away() -> None:
    assert "overloaded" in message_for_users(errors.EmbedderBusyError(f"The embedding server at {AWAY} answers 429"))
    assert "damaged" in message_for_users(errors.DamagedCatalogError.of("postgresql://db/gircse", "a row"))
