"""Sources on the page Documents, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from api_application import authorized

from app.errors import ForbiddenError, InputError
from app.types.access import OPERATOR, Principal, Role, acting_as
from app.types.sources import Round
from ui.render.sources import interval
from ui.source_handlers import SourceHandlers, SourcesView

FORM = {"action": "add-source", "kind": "git", "address": "https://host/<x>.git", "every": "60", "removes": "yes"}


@pytest.fixture(autouse=True)
def as_operator() -> Iterator[None]:
    with acting_as(OPERATOR):
        yield


@pytest.fixture
def handlers(toy_services: Any) -> SourceHandlers:
    toy_services.services.library.ensure_collection("library")
    return SourceHandlers(sources=authorized(toy_services.services).sources)


def test_a_source_is_added_shown_run_and_deleted(toy_services: Any, handlers: SourceHandlers) -> None:
    catalog = toy_services.services.catalog
    assert handlers.show("") == handlers.show("gone") == SourcesView()
    shown = handlers.show("library")
    assert "No scheduled sources yet" in shown.listing
    assert not shown.is_awaited
    said = handlers.act("library", {**FORM, "patterns": " docs/ \n\n*.md", "branch": "main"})
    assert "&lt;x&gt;" in said
    [source] = catalog.sources.of_collection("library")
    assert (source.options.patterns, source.options.branch, source.removes) == (("docs/", "*.md"), "main", True)
    assert source.every == timedelta(hours=1)
    shown = handlers.show("library")
    for text in ("every hour", "docs/, *.md", "main", "not synced yet", "deletes missing documents"):
        assert text in shown.listing
    assert "<x>" not in shown.listing
    assert shown.is_awaited  # until a worker takes it up
    held = catalog.sources.claim(lease=timedelta(minutes=1))
    shown = handlers.show("library")
    assert "syncing now" in shown.listing
    assert shown.is_awaited
    catalog.sources.end_round(held, Round(1, 2, 3, "There is no such branch or tag."))
    shown = handlers.show("library")
    assert "1 changed, 2 removed, 3 failed" in shown.listing
    assert "There is no such branch or tag." in shown.listing
    assert not shown.is_awaited
    handlers.act("library", {"action": "run-source", "subject": source.id})
    assert handlers.show("library").is_awaited
    assert catalog.sources.claim(lease=timedelta(minutes=1)) is not None
    handlers.act("library", {"action": "delete-source", "subject": source.id})
    assert catalog.sources.of_collection("library") == []


@pytest.mark.parametrize(
    "wrong", [{"kind": "ftp"}, {"every": "soon"}, {"every": "-5"}, {"address": "x" * 3_000}, {"action": "other"}]
)
def test_what_cannot_be_is_refused(toy_services: Any, handlers: SourceHandlers, wrong: dict[str, str]) -> None:
    with pytest.raises(InputError):
        handlers.act("library", {**FORM, **wrong})
    assert toy_services.services.catalog.sources.of_collection("library") == []


def test_readers_see_sources_and_add_none(handlers: SourceHandlers) -> None:
    handlers.act("library", FORM)
    with acting_as(Principal("rita", Role.READER)):
        assert "host" in handlers.show("library").listing
        with pytest.raises(ForbiddenError):
            handlers.act("library", FORM)
    with acting_as(Principal("eve", Role.EDITOR)), pytest.raises(ForbiddenError, match="operator"):
        handlers.act("library", {**FORM, "address": "file:///srv/x.git"})


@pytest.mark.parametrize(
    ("minutes", "said"), [(5, "every 5 minutes"), (60, "every hour"), (120, "every 2 hours"), (1_440, "every day")]
)
def test_intervals_are_said_as_people_do(minutes: int, said: str) -> None:
    assert interval(timedelta(minutes=minutes)) == said
