"""Deliveries arrive at real servers, signed and by the same id until they do, and never where the guard says no."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from patience import PATIENCE_S, wait_until
from served import in_thread
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.collections.deliveries import MAX_ATTEMPTS, Deliverer, retry_in
from app.collections.standing_news import NewsReader
from app.errors import InputError
from app.types.access import OPERATOR, AccountChange, Role, User
from app.types.alerts import AlertTarget, read_alerts
from app.types.documents import utc_now
from app.types.standing import Channel, Watch
from ingest.alerts import AlertSender
from ingest.webhooks import WebhookSender


@dataclass
class Receiver:
    """A server on 127.0.0.1 that answers each POST with the next of `statuses`, then with 200."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    found.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if self.path == "/slow":
                found.may_answer.wait(PATIENCE_S)
            status = found.statuses.pop(0) if found.statuses else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    with in_thread(server):
        yield found


@pytest.fixture
def deliverer(toy_services: Any) -> Callable[..., Deliverer]:
    def build(*, is_allowed: Callable[[str], bool] = lambda _: True, **targets: AlertTarget) -> Deliverer:
        services = toy_services.services
        senders = {Channel.WEBHOOK: WebhookSender(is_allowed=is_allowed), Channel.ALERT: AlertSender(targets)}
        return Deliverer(services.catalog, NewsReader(services.catalog, services.index), senders)

    return build


@pytest.fixture
def watched(toy_services: Any) -> Callable[..., Any]:
    def watch(owner: str = OPERATOR.name, *, name: str = "cats", **channels: str) -> Any:
        services = toy_services.services
        services.library.ensure_collection("library")
        saved = services.catalog.searches.save_search(owner, name, {"query": "cat", "collection": "library"})
        return services.catalog.standing.watch(owner, saved.id, Watch(**channels))

    return watch


def soon(toy_services: Any, monkeypatch: pytest.MonkeyPatch, *, hours: int = 4) -> None:
    """As if the pause were over."""
    later = utc_now() + timedelta(hours=hours)
    monkeypatch.setattr(toy_services.services.catalog.database, "clock", lambda: later)


def test_a_webhook_gets_what_was_found_signed(
    toy_services: Any, deliverer: Callable[..., Deliverer], watched: Callable[..., Any], receiver: Receiver
) -> None:
    search = watched(webhook=receiver.url)
    document = toy_services.add("cat \U0001f408 sleeps")
    assert deliverer().run_once()
    assert not deliverer().run_once()
    [(path, headers, body)] = receiver.got
    told = Webhook(search.webhook_secret).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(search.webhook_secret).verify(body.replace(b"cats", b"dogs"), headers)
    assert path == "/hook"
    assert (told["type"], told["data"]["delivery_id"]) == ("standing_search.matched", headers["webhook-id"])
    assert told["data"]["search"]["name"] == "cats"
    [match] = told["data"]["matches"]
    assert (match["document_id"], match["text"]) == (document.id, "cat \U0001f408 sleeps")


def test_it_is_tried_again_by_the_same_id(
    toy_services: Any,
    deliverer: Callable[..., Deliverer],
    watched: Callable[..., Any],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = watched(webhook=receiver.url)
    receiver.statuses = [503, 302]
    toy_services.add("cat sleeps")
    assert deliverer().run_once()
    assert not deliverer().run_once()  # it waits
    catalog = toy_services.services.catalog
    assert catalog.deliveries.failures([search.id])[search.id] == {
        Channel.WEBHOOK: "The webhook answered with status 503."
    }
    for hours in (4, 8):
        soon(toy_services, monkeypatch, hours=hours)
        assert deliverer().run_once()
    assert not deliverer().run_once()
    assert [path for path, _, _ in receiver.got] == ["/hook"] * 3  # no redirect was followed
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1


def test_a_webhook_of_a_private_network_is_not_reached(
    toy_services: Any, watched: Callable[..., Any], receiver: Receiver
) -> None:
    search = watched(webhook=receiver.url)
    toy_services.add("cat sleeps")
    services = toy_services.services
    news = NewsReader(services.catalog, services.index)
    assert Deliverer(services.catalog, news, {Channel.WEBHOOK: WebhookSender()}).run_once()
    assert receiver.got == []
    assert "not on the public internet" in services.catalog.deliveries.failures([search.id])[search.id][Channel.WEBHOOK]


@pytest.mark.parametrize("status", [410, 200])
def test_it_ends_when_it_arrived_or_the_webhook_is_gone(
    toy_services: Any,
    deliverer: Callable[..., Deliverer],
    watched: Callable[..., Any],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    watched(webhook=receiver.url)
    receiver.statuses = [status]
    toy_services.add("cat sleeps")
    deliverer().run_once()
    soon(toy_services, monkeypatch)
    assert not deliverer().run_once()
    assert len(receiver.got) == 1


def test_receivers_that_linger_delay_nobody_else(
    toy_services: Any, deliverer: Callable[..., Deliverer], watched: Callable[..., Any], receiver: Receiver
) -> None:
    catalog = toy_services.services.catalog
    for name in ("anna", "ben"):
        catalog.access.add_user(User(name, Role.READER, utc_now(), ("library",)))
    for number in range(6):
        watched("anna", name=f"cats {number}", webhook=receiver.url.replace("/hook", "/slow"))
    watched("ben", webhook=receiver.url)
    toy_services.add("cat sleeps")
    receiver.may_answer.clear()
    stop = threading.Event()
    thread = threading.Thread(target=deliverer().run, args=(stop,), daemon=True)
    thread.start()
    try:
        wait_until(lambda: any(path == "/hook" for path, _, _ in receiver.got), timeout_s=20)
        assert sum(path == "/slow" for path, _, _ in receiver.got) <= 2
        receiver.may_answer.set()
        wait_until(lambda: len(receiver.got) == 7)
    finally:
        receiver.may_answer.set()
        stop.set()
        thread.join(PATIENCE_S)


def test_who_may_not_read_any_more_is_told_nothing(
    toy_services: Any, deliverer: Callable[..., Deliverer], watched: Callable[..., Any], receiver: Receiver
) -> None:
    catalog = toy_services.services.catalog
    catalog.access.add_user(User("anna", Role.READER, utc_now(), ("library",)))
    search = watched("anna", webhook=receiver.url)
    toy_services.add("cat sleeps")
    catalog.access.change_user("anna", AccountChange(is_disabled=True))
    assert deliverer().run_once()
    assert receiver.got == []
    assert "may no longer read" in catalog.deliveries.failures([search.id])[search.id][Channel.WEBHOOK]


def test_an_alert_goes_out_by_apprise_and_its_address_nowhere_else(
    toy_services: Any,
    deliverer: Callable[..., Deliverer],
    watched: Callable[..., Any],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    target = AlertTarget(f"json://user:s3cret@127.0.0.1:{receiver.port}/hook")
    search = watched(alert="ops")
    toy_services.add("cat sleeps")
    receiver.statuses = [500]
    assert deliverer(ops=target).run_once()
    failure = toy_services.services.catalog.deliveries.failures([search.id])[search.id][Channel.ALERT]
    assert failure == "The alert 'ops' could not be sent."
    soon(toy_services, monkeypatch)
    assert deliverer(ops=target).run_once()
    told = json.loads(receiver.got[-1][2])
    assert told["title"] == "1 new in library: cats"
    assert "cat sleeps" in told["message"]
    assert "s3cret" not in caplog.text + repr(target)


def test_an_alert_that_is_gone_or_another_persons_is_given_up(
    toy_services: Any, deliverer: Callable[..., Deliverer], watched: Callable[..., Any], receiver: Receiver
) -> None:
    watched(alert="ops")
    toy_services.add("cat sleeps")
    target = AlertTarget(f"json://127.0.0.1:{receiver.port}/hook", frozenset({"ben"}))
    assert deliverer(ops=target).run_once()
    assert receiver.got == []


def test_alerts_are_read_from_lines() -> None:
    text = "# ours\nops chat = slack://T/B/C/#ops\n\nmail anna for anna, ben = mailto://u:p@host?to=a\n"
    found = read_alerts(text)
    assert list(found) == ["ops chat", "mail anna"]
    assert (found["ops chat"].is_for("eve"), found["mail anna"].is_for("eve"), found["mail anna"].is_for("ben")) == (
        True,
        False,
        True,
    )
    with pytest.raises(InputError, match="Line 2") as refused:
        read_alerts("a = b\nmailto://u:p@host")
    assert "u:p" not in str(refused.value)


def test_pauses_grow_to_hours() -> None:
    pauses = [retry_in(attempt).total_seconds() for attempt in range(1, MAX_ATTEMPTS)]
    assert pauses[:3] == [30, 60, 120]
    assert max(pauses) == 3 * 3600
