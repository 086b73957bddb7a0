"""Every handler of the pages, called with untrusted values: a user who may not see a collection is told nothing of it
and changes nothing in it, whatever they send. New handlers are tested by being there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import gradio as gr
import pytest
from access_application import HIDDEN, MARKER, OWN, AccessApplication, open_access_application
from starlette.routing import Route

from app.search.judgements import new_judgement
from app.testing import ToyEmbedder

# What handlers look for in the word of the page's script; all of it is sent to each.
ACTIONS = (
    *("boost", "suppress", "like", "unlike", "filter", "drop-all"),
    *("delete", "cancel", "retry", "retry-all", "retry-url", "forget-url", "pause", "resume"),
    *("start", "start-over", "roll-back"),
)


pytestmark = pytest.mark.xdist_group("access-pages")


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, toy_services_class: Any) -> Iterator[AccessApplication]:
    with ExitStack() as opened:
        toy = toy_services_class(tmp_path_factory.mktemp("pages"), opened, embedder=ToyEmbedder())
        for collection in (OWN, HIDDEN):
            for text in (f"A {MARKER} swims.", f"The {MARKER} eats."):
                document = toy.add(f"{text} It is {collection}.", collection=collection, metadata={"k": f"{MARKER} 1"})
            toy.services.catalog.save_judgement(new_judgement(document.id, query="cat", instruction="", grade=1))
        yield opened.enter_context(open_access_application(toy))


def site_of(application: AccessApplication) -> gr.Blocks:
    (mount,) = [route for route in application.app.routes if hasattr(getattr(route, "app", None), "get_blocks")]
    return mount.app.get_blocks()


def handlers_of(application: AccessApplication) -> list[Any]:
    return [each for each in site_of(application).fns.values() if each.fn is not None]


def call(application: AccessApplication, who: str | None, index: int, data: list[Any], event: dict[str, Any]) -> str:
    """What comes back, or the reason why nothing does. One session each: Gradio looks at all the page for a new one."""
    headers = {"content-type": "application/json", **application.as_(who)}
    session = str(who)
    body = {"data": data, "fn_index": index, "session_hash": session, "event_data": event}
    joined = application.client.post("/gradio_api/queue/join", content=json.dumps(body), headers=headers)
    if joined.status_code != 200:
        return f"{joined.status_code}"
    answer = application.client.get("/gradio_api/queue/data", params={"session_hash": session}, headers=headers)
    return answer.text


def values_of(handler: Any, collection: str) -> list[Any]:
    """A likely value for each field: the collection wherever one of several names can be chosen."""
    values: list[Any] = []
    for field in handler.inputs:
        name = str(getattr(field, "elem_id", "") or "")
        if isinstance(field, gr.Dropdown) and "lens" in name:
            values.append("No lens")
        elif isinstance(field, gr.Dropdown):
            values.append([collection] if field.multiselect else collection)
        elif isinstance(field, gr.Slider | gr.Number | gr.Radio | gr.CheckboxGroup):
            values.append(field.value)
        elif isinstance(field, gr.File):
            values.append(None)
        elif isinstance(field, gr.Checkbox):
            values.append(False)
        elif "choices" in name:
            values.append("")
        else:
            values.append(collection if "collection" in name or "name" in name else "cat swims")
    return values


def events_of(application: AccessApplication, collection: str) -> list[dict[str, Any]]:
    services = application.application.services
    document = services.catalog.documents(collection)[0]
    index = services.catalog.collection(collection).active_index
    chunk = next(services.index.points_of(index, [document.id]))[1]
    common = {
        "document": document.id,
        "chunk": chunk,
        "subject": chunk,
        "value": 1,
        "grade": 2,
        "source": "local",
        "url": "https://example.invalid/",
    }
    return [{**common, "action": action} for action in ACTIONS]


def state_of(application: AccessApplication, collection: str) -> Any:
    catalog = application.application.services.catalog
    found = [each for each in catalog.collections() if each.name == collection]
    judgements = [each for page in catalog.judgement_pages(collection) for each in page]
    return found, catalog.documents(collection), catalog.jobs(collection=collection), judgements


def takes_event(handler: Any) -> bool:
    return any(
        each is not None and "EventData" in str(each) for each in getattr(handler.fn, "__annotations__", {}).values()
    )


def test_nobody_calls_any_handler(application: AccessApplication) -> None:
    for handler in handlers_of(application):
        assert call(application, None, handler._id, values_of(handler, OWN), {}) == "401"
    for path in ("/config", "/gradio_api/info", "/gradio_api/file=/etc/passwd", "/gradio_api/startup-events"):
        assert application.client.get(path).status_code in (303, 401), path
    assert application.client.post("/gradio_api/upload", files={"files": ("a.txt", b"a")}).status_code == 401


def gradio_routes(application: AccessApplication) -> set[tuple[str, str]]:
    """All that Gradio's application has, with a value for each part of a path."""
    (mount,) = [route for route in application.app.routes if hasattr(getattr(route, "app", None), "get_blocks")]
    found, waiting = set(), [("", each) for each in mount.app.routes]
    while waiting:
        prefix, route = waiting.pop()
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        if not isinstance(route, Route) and hasattr(inner, "routes"):
            waiting += [(prefix + getattr(route, "path", ""), each) for each in inner.routes]
        elif isinstance(route, Route):
            found |= {(method, re.sub(r"{[^}]*}", "x", prefix + route.path)) for method in route.methods or ()}
    return found


def test_of_gradio_is_served_what_the_pages_use(application: AccessApplication) -> None:
    routes = gradio_routes(application)
    for known in ("dev/reload", "upload_progress", "component_server", "process_recording", "vibe-edit", "proxy=x"):
        assert any(path == f"/gradio_api/{known}" for _, path in routes), known
    answered = set()
    for method, path in sorted(routes):
        if path.startswith(("/gradio_api/queue/data", "/gradio_api/heartbeat/", "/gradio_api/startup-events")):
            continue  # streams without an end
        answer = application.client.request(method, path, headers=application.as_("admin"))
        if answer.status_code != 404:
            answered.add(path.rstrip("/") or "/")
    pages = {"/compare", "/documents", "/saved", "/evaluate", "/about", "/"}
    own = {"/config", "/theme.css", "/favicon.ico"}
    own |= {f"/gradio_api/{each}" for each in ("app_id", "cancel", "reset", "queue/join")}
    of_api = {"/login", "/openapi.json", "/metrics"}
    assert {
        path for path in answered if not path.startswith(("/static/", "/assets/", "/svelte/"))
    } <= pages | own | of_api


@pytest.mark.parametrize("host", ["127.0.0.1", "search.example.org"])
@pytest.mark.parametrize("origin", ["https://attacker.invalid", "null", "http://localhost:9"])
def test_no_other_site_is_let_in(application: AccessApplication, host: str, origin: str) -> None:
    headers = {"origin": origin, "host": host, **application.as_("admin")}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "x"}
    for path in ("/", "/config", "/theme.css", "/gradio_api/queue/join", "/api/v1/me"):
        for answer in (
            application.client.get(path, headers=headers),
            application.client.options(path, headers={**headers, **asked}),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control-")], path


def test_a_queue_is_read_by_those_alone_who_asked(application: AccessApplication) -> None:
    handler = handlers_of(application)[0]
    body = {"data": values_of(handler, OWN), "fn_index": handler._id, "session_hash": "guessed"}
    client, reader, editor = application.client, application.as_("reader of own"), application.as_("editor of all")
    assert client.post("/gradio_api/queue/join", json=body, headers=editor).status_code == 200
    own_first = "/gradio_api/queue/data?session_hash=own&session_hash=guessed"  # Gradio takes the last one
    for path in ("/gradio_api/queue/data?session_hash=guessed", own_first, "/gradio_api/heartbeat/guessed"):
        assert client.get(path, headers=reader).status_code == 404
    assert client.post("/gradio_api/queue/join", json=body, headers=reader).status_code != 200
    event = {"session_hash": "guessed", "fn_index": handler._id, "event_id": "e"}
    assert client.post("/gradio_api/cancel", json=event, headers=reader).status_code == 404
    for wrong in (b"", b"[]", b"{", b'{"session_hash": 1}', b'{"session_hash": "%s"}' % (b"a" * 200)):
        assert client.post("/gradio_api/cancel", content=wrong, headers=reader).status_code == 404
    mine = {**event, "session_hash": "of the reader"}
    assert client.post("/gradio_api/cancel", json=mine, headers=reader).json() == {"success": True}
    answer = client.get("/gradio_api/queue/data?session_hash=guessed", headers=editor)
    assert "process_completed" in answer.text


@pytest.mark.parametrize(
    ("who", "share"),
    [
        pytest.param("reader of own", 1, marks=pytest.mark.long),
        pytest.param("editor of all with a key for own", 1, marks=pytest.mark.long),
        ("editor of all with a key for own", 8),
    ],
)
def test_no_handler_tells_or_changes_what_is_of_others(application: AccessApplication, who: str, share: int) -> None:
    """Each handler gets one in `share` events, all of them together every event."""
    before = state_of(application, HIDDEN)
    events = events_of(application, HIDDEN)
    handlers = handlers_of(application)
    assert len(handlers) > 40
    for handler in handlers:
        values = values_of(handler, HIDDEN)
        for event in events[handler._id % share :: share] if takes_event(handler) else events[:1]:
            said = call(application, who, handler._id, values, event)
            assert MARKER not in said, (handler._id, handler.targets, event)
            assert f"is {HIDDEN}" not in said, (handler._id, handler.targets, event)
    assert state_of(application, HIDDEN) == before


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)])
def test_no_handler_lets_a_reader_change_anything(application: AccessApplication, share: int) -> None:
    accounts = accounts_of(application)
    before = state_of(application, OWN), application.application.services.catalog.lenses(), names(application)
    events = events_of(application, OWN)
    for handler in handlers_of(application):
        for event in events[handler._id % share :: share] if takes_event(handler) else events[:1]:
            call(application, "reader of own", handler._id, values_of(handler, OWN), event)
    assert (state_of(application, OWN), application.application.services.catalog.lenses(), names(application)) == before
    assert accounts_of(application) == accounts


def test_the_same_calls_tell_and_change_things_for_those_who_may(application: AccessApplication) -> None:
    """Else the tests above would prove nothing."""
    before, accounts = state_of(application, HIDDEN), accounts_of(application)
    told = 0
    for handler in handlers_of(application):
        events = events_of(application, HIDDEN) if application.application.services.catalog.documents(HIDDEN) else []
        for event in events if takes_event(handler) else events[:1]:
            told += MARKER in call(application, "admin", handler._id, values_of(handler, HIDDEN), event)
    assert told >= 5
    assert state_of(application, HIDDEN) != before
    assert accounts_of(application) == accounts


def names(application: AccessApplication) -> list[str]:
    return [each.name for each in application.application.services.catalog.collections()]


def accounts_of(application: AccessApplication) -> Any:
    """No handler of the pages gives anything to anybody."""
    return application.accounts.ledger.users(), application.accounts.api_keys()


def test_without_settings_there_is_no_sign_in_by_a_provider(application: AccessApplication) -> None:
    assert "Sign in with" not in application.client.get("/login").text
    for path in ("/login/openid", "/login/openid/callback?code=a&state=b"):
        assert application.client.get(path).status_code == 404
