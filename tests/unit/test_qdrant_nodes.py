"""Requests to one or several addresses of Qdrant that hang, refuse, fail or restart."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from odd_servers import Mode, OddServer

from app.vectors import nodes
from app.vectors.nodes import NodeTransport

SEARCH = "/collections/docs/points/query/batch"
UPSERT = "/collections/docs/points?wait=true"

pytestmark = pytest.mark.timeout(120)
broken = pytest.mark.parametrize("mode", [Mode.HANGING, Mode.FAILING, Mode.DAWDLING, Mode.CUTTING])


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def servers(opened: ExitStack) -> list[OddServer]:
    return [opened.enter_context(OddServer(name)) for name in ("one", "two")]


@pytest.fixture
def client_of(opened: ExitStack) -> Callable[..., httpx.Client]:
    def open_client(*servers: OddServer, prefix: str = "", **options: Any) -> httpx.Client:
        transport = NodeTransport([f"{each.url}{prefix}" for each in servers], **{"read_s": 0.6, **options})
        client = httpx.Client(base_url=f"{servers[0].url}{prefix}", transport=transport)
        return opened.enter_context(client)

    return open_client


def answering(client: httpx.Client, path: str = SEARCH) -> str:
    answer = client.post(path, json={"limit": 1})
    assert (answer.status_code, answer.json()["sent"]) == (200, '{"limit":1}')
    return answer.json()["from"]


def is_refused(client: httpx.Client, path: str = SEARCH) -> bool:
    try:
        return client.request("PUT" if path == UPSERT else "POST", path).status_code == 503
    except httpx.TransportError:
        return True


@broken
def test_one_server_that_does_not_answer_fails_a_read_and_is_used_again_once_it_does(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], mode: Mode
) -> None:
    client = client_of(servers[0])
    assert answering(client) == "one"
    servers[0].turn(mode)
    assert is_refused(client)
    servers[0].turn(Mode.WELL)
    wait_until(lambda: not is_refused(client))
    assert answering(client) == "one"


def test_once_it_is_known_to_hang_nobody_waits_for_it(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "RESTART_S", 0.2)
    monkeypatch.setattr(nodes, "PING_S", 0.2)
    client = client_of(servers[0], read_s=60)  # a request that is sent to it would wait for a minute
    servers[0].turn(Mode.HANGING)
    client._transport._fail(client._transport._nodes[0], "as a search has found")  # type: ignore[attr-defined]
    assert [is_refused(client) for _ in range(20)] == [True] * 20
    assert servers[0].paths == []
    servers[0].turn(Mode.WELL)
    wait_until(lambda: not is_refused(client))


@broken
def test_of_two_nodes_the_one_that_does_not_answer_is_left_for_the_other(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], mode: Mode
) -> None:
    client = client_of(*servers, read_s=3.0)
    assert {answering(client) for _ in range(4)} == {"one", "two"}
    servers[0].turn(mode)
    assert [answering(client) for _ in range(6)] == ["two"] * 6
    servers[0].turn(Mode.WELL)
    wait_until(lambda: answering(client) == "one")


def test_a_write_is_sent_to_a_node_that_answers_a_ping(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "PING_S", 0.2)
    client = client_of(*servers, write_s=60)
    servers[0].turn(Mode.HANGING)
    answers = {client.put(UPSERT, json={"points": []}).json()["from"] for _ in range(4)}
    assert answers == {"two"}
    assert servers[0].paths == []  # where it would have waited for a minute
    assert servers[1].paths == [f"PUT {UPSERT}"] * 4


def test_a_write_does_not_wait_for_a_node_that_hangs_after_its_ping(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "QUIET_S", 0.2)
    monkeypatch.setattr(nodes, "PING_S", 0.5)
    monkeypatch.setattr(nodes, "_PINGED_AFTER_S", 3_600)  # so that the next write is sent without a ping
    client = client_of(servers[0], write_s=3_600)
    assert not is_refused(client, UPSERT)
    servers[0].turn(Mode.HANGING)
    assert is_refused(client, UPSERT)
    assert servers[0].paths == [f"PUT {UPSERT}"] * 2  # it was sent
    servers[0].turn(Mode.WELL)
    wait_until(lambda: not is_refused(client, UPSERT))


def test_a_write_that_one_node_does_not_answer_is_sent_to_the_other(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "QUIET_S", 0.2)
    monkeypatch.setattr(nodes, "PING_S", 0.5)
    monkeypatch.setattr(nodes, "_PINGED_AFTER_S", 3_600)
    client = client_of(*servers, write_s=3_600, read_s=60)
    assert [is_refused(client, UPSERT) for _ in range(2)] == [False, False]
    servers[0].turn(Mode.HANGING)
    answers = {client.put(UPSERT, json={"points": []}).json()["from"] for _ in range(4)}
    assert answers == {"two"}


def test_an_error_of_any_class_ends_a_write_whose_node_answers_pings(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "QUIET_S", 0.05)
    client = client_of(servers[0], write_s=3_600)

    def trace(name: str, info: object) -> None:  # httpcore calls it at each step
        raise LookupError(name)

    with pytest.raises(LookupError):
        client.put(UPSERT, extensions={"trace": trace})


def test_a_write_may_take_long_while_the_node_answers_pings(
    servers: list[OddServer], client_of: Callable[..., httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "QUIET_S", 0.05)
    client = client_of(servers[0], write_s=3_600)
    servers[0].turn(Mode.SLOW)
    answered: list[bool] = []
    writing = threading.Thread(target=lambda: answered.append(not is_refused(client, UPSERT)))
    writing.start()
    wait_until(lambda: servers[0].pings > 3)
    servers[0].turn(Mode.WELL)
    writing.join()
    assert answered == [True]
    assert len(servers[0].paths) == 1


def test_a_restart_fails_no_request(servers: list[OddServer], client_of: Callable[..., httpx.Client]) -> None:
    client, failed = client_of(servers[0], read_s=30), []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            failed.append(is_refused(client) or is_refused(client, UPSERT))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    for _ in range(5):
        wait_until_more(servers[0].paths)
        servers[0].stop()
        servers[0].turn(Mode.WELL)
        servers[0].start()
        wait_until_more(servers[0].paths)
    done.set()
    for each in asking:
        each.join()
    assert not any(failed)
    assert len(failed) >= 10


def test_a_request_names_its_host_and_keeps_the_path_of_each_address(
    servers: list[OddServer], client_of: Callable[..., httpx.Client]
) -> None:
    client = client_of(*servers, prefix="/qdrant")
    for _ in range(2):
        answering(client)
    assert [each.paths for each in servers] == [[f"POST /qdrant{SEARCH}"]] * 2
    assert [each.headers[0]["host"] for each in servers] == [f"127.0.0.1:{each.port}" for each in servers]


def test_a_name_of_several_addresses_stands_for_several_nodes(
    servers: list[OddServer], opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the name of a service has for each container: here 127.0.0.1, where it listens, and 127.0.0.2, where not."""
    port = servers[0].port
    addresses = ["127.0.0.2", "127.0.0.1"]

    look_up_really = socket.getaddrinfo

    def look_up(host: str, port: Any, *options: Any, **named: Any) -> list[tuple[Any, ...]]:
        if host != "qdrant":
            return look_up_really(host, port, *options, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port or 0)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    transport = NodeTransport([f"http://qdrant:{port}"], read_s=30)
    client = opened.enter_context(httpx.Client(base_url=f"http://qdrant:{port}", transport=transport))
    wait_until(lambda: not is_refused(client))
    assert [answering(client) for _ in range(6)] == ["one"] * 6
    assert {each["host"] for each in servers[0].headers} == {f"qdrant:{port}"}


@pytest.mark.parametrize(
    ("found", "nodes_of"),
    [
        ([(socket.AF_INET, "10.0.0.1")], [None]),
        ([(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")], [None]),  # localhost: one machine
        ([(socket.AF_INET, "10.0.0.1"), (socket.AF_INET, "10.0.0.2")], ["10.0.0.1", "10.0.0.2"]),
        ([(socket.AF_INET, "10.0.0.1"), (socket.AF_INET, "10.0.0.1")], [None]),
    ],
)
def test_addresses_of_two_families_are_one_machine(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[int, str]], nodes_of: list[str | None]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(family, 1, 6, "", (ip, 0)) for family, ip in found])
    assert nodes._ips_of(httpx.URL("http://qdrant:6333")) == nodes_of


def test_a_password_in_an_address_is_not_shown() -> None:
    assert nodes.shown(httpx.URL("https://me:hunter2@qdrant.example:6333/q/")) == "https://qdrant.example:6333/q"


@pytest.mark.parametrize(
    ("request_line", "is_read"),
    [
        ("GET /collections/docs", True),
        ("POST /collections/docs/points", True),  # the points of some ids
        ("PUT /collections/docs/points?wait=true", False),
        ("POST /collections/docs/points/query/batch?timeout=3", True),
        ("POST /collections/docs/points/scroll", True),
        ("POST /collections/docs/points/count", True),
        ("POST /collections/docs/facet", True),
        ("POST /collections/docs/points/delete?wait=true", False),
        ("POST /collections/docs/points/batch?wait=true", False),
        ("PUT /collections/docs/index?wait=true", False),
        ("POST /collections/aliases", False),
        ("DELETE /collections/docs", False),
    ],
)
def test_only_reads_have_the_deadline_of_a_search(request_line: str, is_read: bool) -> None:
    method, _, path = request_line.partition(" ")
    assert nodes._is_read(method, path.encode()) is is_read


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.02)


def wait_until_more(items: list[str]) -> None:
    count = len(items)
    wait_until(lambda: len(items) > count)
