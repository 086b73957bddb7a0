"""Every handler of the pages, called by an untrusted client through the queue: all are public, whatever is shown.

Which handlers there are, and what each takes, the server itself says; none can be left out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hostile import ATTACKS, SCRIPTS
from page_application import PageApplication

pytestmark = pytest.mark.timeout(900)  # the first test waits for the hostile corpus

ASKED, HIDDEN = "asked", "hidden"
SECRET = "marzipan-4711"
BATCH, AT_ONCE = 8, 6  # together fewer than may wait
TIMEOUT_S = 120

_DEEP: Any = "deep"
for _ in range(60):
    _DEEP = [_DEEP]
JUNK: Sequence[Any] = (
    None,
    True,
    -1.5,
    float("nan"),
    10**30,
    "../../../../etc/passwd",
    "W" * 50_000,
    SCRIPTS[0] + "\x00\ud800",
    {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
    [{"path": "https://attacker.invalid/a", "url": "file:///etc/passwd", "meta": {"_type": "gradio.FileData"}}],
    {"__type__": "update", "value": SCRIPTS[1], "choices": [["a", "b"]]},
    _DEEP,
)
EVENTS: Sequence[Any] = (
    None,
    "text",
    {"document": {"id": 1}},
    {"action": _DEEP},
    {"grade": float("nan")},
    dict.fromkeys(("action", "subject", "document", "chunk", "offset", "source", "url"), "W" * 50_000),
)
ACTIONS = (
    "boost", "suppress", "filter", "like", "unlike", "drop-bias", "drop-filters", "drop-like", "drop-all",
    "delete", "retry", "cancel", "retry-all", "retry-url", "forget-url", "pause", "resume", "go-on", "start-over",
    "roll-back", "restore", "move", "save", "forget", "clear", "absent",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Handler:
    """One index of the queue; `valid` is what a well-meant request sends."""

    index: int
    valid: tuple[Any, ...]
    is_clicked: bool  # in HTML of ours, whose events carry data
    is_script: bool  # of the browser alone, with nothing behind it on the server

    def payloads(self, *, junk: Sequence[Any], share: int) -> Iterator[dict[str, Any]]:
        yield {"data": [*self.valid]}
        yield {"data": []}
        yield {"data": [*self.valid, "one", "too many", None], "event_data": EVENTS[-1]}
        if self.is_script:
            return
        for each in junk:
            yield {"data": [each] * len(self.valid)}
        for place in range(self.index % share, len(self.valid), share):
            yield {"data": [*self.valid[:place], ["W" * 50_000, [None]], *self.valid[place + 1 :]]}
        for event in EVENTS if self.is_clicked else ():
            yield {"data": [*self.valid], "event_data": event}


@dataclass(frozen=True, slots=True)
class Reply:
    handler: Handler
    sent: Mapping[str, Any]
    message: Mapping[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.message, ensure_ascii=False)

    @property
    def is_answer(self) -> bool:
        return bool(self.message.get("success"))

    @property
    def is_explained(self) -> bool:
        """A refusal in words that the page shows."""
        return bool(self.message.get("output", {}).get("error") or self.message.get("detail"))

    def __repr__(self) -> str:
        return f"handler {self.handler.index}, sent {str(self.sent)[:200]}: {self.text[:400]}"


@pytest.fixture(scope="module")
def application(hostile_application: PageApplication) -> PageApplication:
    """With two more collections: the one that requests name, and one that they have no business with."""
    for name, word in ((ASKED, "ferry"), (HIDDEN, SECRET)):
        hostile_application.server.ask("/api/v1/collections", {"name": name})
        for number in range(3):
            text = f"A {word} of number {number}. It came late."
            hostile_application.add_text(name, f"{word} {number}", text, {"kind": word}, uri=f"{word}-{number}")
    hostile_application.wait_until_read(ASKED, HIDDEN)
    return hostile_application


@pytest.fixture(autouse=True)
def no_incident(application: PageApplication) -> Iterator[None]:
    """Nobody's request may bring about what nobody foresaw."""
    before = application.incidents()
    yield
    assert application.incidents() == before


@pytest.fixture(scope="module")
def client(application: PageApplication) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=application.url, timeout=TIMEOUT_S, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def handlers(client: httpx.Client) -> list[Handler]:
    config = client.get("/config").json()
    components = {each["id"]: each for each in config["components"]}
    return [
        Handler(
            each["id"],
            tuple(_valid(components[place]) for place in each["inputs"]),
            any(components.get(place, {}).get("type") == "html" for place, _ in each["targets"]),
            not each["backend_fn"],
        )
        for each in config["dependencies"]
    ]


def _valid(component: Mapping[str, Any]) -> Any:
    kind, properties, name = component["type"], component["props"], str(component["props"].get("elem_id"))
    if "collection" in name:
        return ASKED
    if kind == "dropdown":
        choices = [value for _, value in properties.get("choices") or []]
        return choices[:1] if properties.get("multiselect") else next(iter(choices), None)
    return {
        "slider": properties.get("minimum"),
        "radio": properties.get("value"),
        "checkboxgroup": properties.get("value"),
        "textbox": "" if "choices" in name else properties.get("value") or "ferry",
    }.get(kind)


def ask(client: httpx.Client, handler: Handler, payloads: Sequence[Mapping[str, Any]]) -> list[Reply]:
    """What the queue answers last to each of them. Refused before they are queued: the refusal."""
    replies, waiting, session = [], {}, uuid.uuid4().hex
    for sent in payloads:
        body = {**sent, "fn_index": handler.index, "session_hash": session}
        answer = client.post(
            "/gradio_api/queue/join", content=json.dumps(body), headers={"content-type": "application/json"}
        )
        assert answer.status_code < 500, (handler, sent, answer.text)
        if answer.status_code == 200:
            waiting[answer.json()["event_id"]] = sent
        else:
            replies.append(Reply(handler, sent, answer.json()))
    if waiting:
        with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                if message.get("msg") in ("process_generating", "process_completed"):
                    replies.append(Reply(handler, waiting[message["event_id"]], message))
                if message.get("msg") == "process_completed":
                    del waiting[message["event_id"]]
                if message.get("msg") == "close_stream" or not waiting:
                    break
    assert not waiting, f"no answer of handler {handler.index} to {list(waiting.values())}"
    return replies


def ask_all(client: httpx.Client, wanted: Iterable[tuple[Handler, Sequence[Mapping[str, Any]]]]) -> Iterator[Reply]:
    """Several handlers at a time, as Gradio looks for work only every 50 ms."""
    batches = [
        (handler, payloads[start : start + BATCH])
        for handler, payloads in wanted
        for start in range(0, len(payloads), BATCH)
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for replies in threads.map(lambda each: ask(client, *each), batches):
            yield from replies


def held_by_the_hidden_collection(application: PageApplication) -> dict[str, Any]:
    paths = ("documents?limit=1000&", "jobs?limit=1000&", "judgements?", "facets?")
    held = {path: application.server.ask(f"/api/v1/{path}collection={HIDDEN}").body for path in paths}
    collections = application.server.ask("/api/v1/collections").body
    return {**held, "collection": next(each for each in collections if each["name"] == HIDDEN)}


def test_no_index_is_left_out(client: httpx.Client, handlers: list[Handler]) -> None:
    assert [each.index for each in handlers] == list(range(len(handlers)))
    beyond = {"data": [], "fn_index": len(handlers), "session_hash": "beyond"}
    assert 400 <= client.post("/gradio_api/queue/join", json=beyond).status_code < 500


@pytest.mark.parametrize("share", [48, pytest.param(1, marks=pytest.mark.long)])
def test_malformed_requests(
    application: PageApplication, client: httpx.Client, handlers: list[Handler], share: int
) -> None:
    """Each handler gets one in `share` kinds of junk, all of them together every kind."""
    before = held_by_the_hidden_collection(application)
    silent: list[Reply] = []
    junk = {handler.index: JUNK[handler.index % share :: share] for handler in handlers}
    for reply in ask_all(
        client, ((each, list(each.payloads(junk=junk[each.index], share=share))) for each in handlers)
    ):
        assert "Traceback" not in reply.text
        assert "root:" not in reply.text
        assert SECRET not in reply.text, reply
        silent += [] if reply.is_answer or reply.is_explained else [reply]
    assert held_by_the_hidden_collection(application) == before
    assert silent == []


@pytest.mark.parametrize("share", [12, pytest.param(1, marks=pytest.mark.long)])
def test_ids_of_another_collection(
    application: PageApplication, client: httpx.Client, handlers: list[Handler], share: int
) -> None:
    """Each handler gets one in `share` actions, all of them together every action."""
    before = held_by_the_hidden_collection(application)
    hits = application.server.search("late", collection=HIDDEN)["hits"]
    document, chunk = hits[0]["document"]["id"], hits[0]["chunk"]["id"]
    job = application.server.ask(f"/api/v1/jobs?collection={HIDDEN}&limit=1").body[0]["id"]
    events = [
        {"action": action, "document": document, "chunk": chunk, "subject": chunk, "job": job, "value": SECRET[:3],
         "documents": document, "to": HIDDEN, "name": HIDDEN,
         "grade": 3, "url": HIDDEN, "source": HIDDEN, "offset": "0", "start": "0", "end": "9"}
        for action in ACTIONS
    ]  # fmt: skip
    clicked = [
        (handler, [{"data": [*handler.valid], "event_data": event} for event in events[handler.index % share :: share]])
        for handler in handlers
        if handler.is_clicked
    ]
    assert [reply for reply in ask_all(client, clicked) if SECRET in reply.text] == []
    chosen = json.dumps({"like": {chunk: "x"}, "unlike": {chunk: "y"}})
    filled = [(handler, [{"data": [chosen if each == "" else each for each in handler.valid]}]) for handler in handlers]
    assert [reply for reply in ask_all(client, filled) if SECRET in reply.text] == []
    assert held_by_the_hidden_collection(application) == before
    assert application.incidents() == []


@pytest.mark.parametrize(
    "attack", [ATTACKS[0], "a/b", "../../x", "", " ", "\x00", "\ud800", "W" * 81, "No lens", "\u202e"]
)
def test_names_of_lenses(
    application: PageApplication, client: httpx.Client, handlers: list[Handler], attack: str
) -> None:
    """Saved as they are, or refused with a reason; either way the page still answers."""
    for handler in handlers:
        if len(handler.valid) == 2 and not handler.is_clicked:
            for reply in ask(client, handler, [{"data": [attack, "Find texts."]}]):
                assert reply.is_answer or reply.is_explained, reply
    assert client.get("/").status_code == 200
    assert client.get("/api/v1/lenses").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "https://attacker.invalid/a",
        "file:///etc/passwd",
    ],
)
def test_no_file_of_the_server_is_given_out(client: httpx.Client, path: str) -> None:
    for prefix in ("/gradio_api/file=", "/file=", "/static/", "/assets/", "/gradio_api/stream/"):
        answer = client.get(prefix + path)
        assert 400 <= answer.status_code < 500, (prefix, answer.status_code)
        assert "root:" not in answer.text


def test_handlers_have_no_names_to_call_them_by(client: httpx.Client, handlers: list[Handler]) -> None:
    for name in ("search", "predict", "show", "restore", "lambda"):
        for path in ("call", "api", "run"):
            answer = client.post(f"/gradio_api/{path}/{name}", json={"data": []})
            assert 400 <= answer.status_code < 500, (path, name, answer.status_code, answer.text)
    for handler in handlers:
        answer = client.post("/gradio_api/run/predict", json={"data": [], "fn_index": handler.index})
        assert 400 <= answer.status_code < 500, (handler, answer.status_code, answer.text)
