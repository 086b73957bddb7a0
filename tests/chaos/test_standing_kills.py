"""Standing searches while workers, the index and the web process are killed: exactly the new chunks that a search of
that strength finds, each told once, and none of other collections."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import numpy as np
import pytest
from chaos_plan import Kill, Target
from chaos_processes import Supervisor, begin_imports
from chaos_run import DTYPE, LEASE_S, patiently, wait_until_idle, worker_environment
from chaos_web import KillableWeb
from patience import wait_until
from served import in_thread

from app.search.calibration import Scale, shares_words
from app.services import Services
from app.settings import Settings
from app.testing import text_source
from app.types.access import OPERATOR
from app.types.documents import Point
from app.types.standing import PreparedSearch, Strength, Watch
from app.wiring.services import open_services

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.timeout(900),
]

WATCHED, OTHER = "watched", "other"
WORDS = "river delta flood mill grain harvest market price ship sail storm harbour letter ink road bridge".split()  # noqa: SIM905
QUERIES = ("river flood", "ship storm harbour", "grain price", "letter", "road bridge mill")
SHARE_NEW = 0.6  # of the documents that were there: the index does not double, so that the scale stays


@dataclass
class Receiver:
    """A webhook that fails now and then; `deliveries` are the chunks of each by its id."""

    port: int = 0
    deliveries: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)


@contextmanager
def receiving(seed: int) -> Iterator[Receiver]:
    found, moods = Receiver(), Random(seed)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["content-length"])))["data"]
            chunks = tuple(sorted(each["chunk_id"] for each in told["matches"]))
            found.deliveries.setdefault(self.headers["webhook-id"], []).append((told["search"]["id"], chunks))
            self.send_response(200 if moods.random() < 0.8 else 503)  # what was received may be sent again
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    with in_thread(server):
        yield found


def a_text(random: Random) -> str:
    return ". ".join(" ".join(random.choice(WORDS) for _ in range(8)) for _ in range(random.randint(1, 6)))


def add(services: Services, collection: str, numbers: range, random: Random, web: KillableWeb | None = None) -> None:
    """Through the web process where there is one."""
    for number in numbers:
        if web is not None:
            body = {"collection": collection, "uri": f"text://{number}", "text": a_text(random)}
            web.ask("POST", "/api/v1/documents", json=body)
            continue
        source = text_source(f"text://{number}", a_text(random))
        patiently(lambda source=source: services.library.add_document(collection, source))  # type: ignore[misc]


def watch_all(services: Services, port: int) -> dict[str, str]:
    """Searches of both strengths over both collections; their collection by id."""
    found = {}
    for collection in (WATCHED, OTHER):
        for query in QUERIES:
            for strength in Strength:
                question = {"query": query, "collection": collection}
                saved = services.catalog.searches.save_search(
                    OPERATOR.name, f"{collection} {query} {strength}", question
                )
                watch = Watch(strength, webhook=f"http://127.0.0.1:{port}/")
                found[services.catalog.standing.watch(OPERATOR.name, saved.id, watch).id] = collection
    return found


def points_of(services: Services, collection: str) -> dict[str, Point]:
    name = services.catalog.collection(collection).active_index
    return {each.id: each for each in services.index.retrieve(name, list(services.index.point_ids(name)))}


def wanted_of(search: PreparedSearch, points: dict[str, Point]) -> set[str]:
    """Told from the index as it stands, by what `match` of a search is made of."""
    scale, query = Scale(search.median, search.deviation), np.asarray(search.vector, dtype=np.float64)
    found = set()
    for point_id, point in points.items():
        shared = shares_words(str(point.payload["page_content"]), str(search.request["query"]))
        match = scale.match(float(np.dot(query, np.asarray(point.vector, dtype=np.float64))), shares_words=shared)
        if search.strength.is_reached_by(match):
            found.add(point_id)
    return found


def wait_until_delivered(services: Services, told: dict[str, set[str]], receiver: Receiver) -> None:
    def arrived() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {search: set() for search in told}
        for sent in list(receiver.deliveries.values()):
            found[sent[0][0]] |= set(sent[0][1])
        return found

    wait_until(lambda: arrived() == told, told=lambda: "not all of it was delivered", every_s=0.5)


def read_and_mark(web: KillableWeb, searches: list[str]) -> dict[str, set[str]]:
    """What a person is shown of each search; what they mark as seen stays so when the process is killed."""
    found = {}
    for search in searches:
        path = f"/api/v1/saved-searches/{search}/news"
        found[search] = {each["chunk_id"] for each in web.ask("GET", f"{path}?limit=500")}
        web.ask("POST", f"{path}/seen", json={"chunk_ids": sorted(found[search])})
    web.kill()
    assert all(web.ask("GET", f"/api/v1/saved-searches/{each}/news?limit=500") == [] for each in searches)
    return found


@pytest.mark.parametrize(
    ("seed", "kills", "documents", "has_web"),
    [(1, 2, 25, False), *(pytest.param(seed, 20, 60, seed == 3, marks=pytest.mark.long) for seed in (2, 3))],
)
def test_each_new_chunk_is_told_once_across_kills(
    model: Path, tmp_path: Path, seed: int, kills: int, documents: int, has_web: bool
) -> None:
    begin_imports()
    random, home = Random(seed), tmp_path / "home"
    home.mkdir()
    settings = Settings(home=home, model=str(model), dtype=DTYPE, lease_s=LEASE_S)
    environment = {**worker_environment(home, str(model)), "GIRCSE_ALLOW_PRIVATE_URLS": "true"}
    with ExitStack() as opened:
        receiver = opened.enter_context(receiving(seed))
        services = opened.enter_context(open_services(settings))
        for name in (WATCHED, OTHER):
            services.library.create_collection(name, document_steps=2, chunk_tokens=100, chunk_overlap=15)
        supervisor = opened.enter_context(Supervisor(home, environment, logs=tmp_path, workers=2))
        for name in (WATCHED, OTHER):
            add(services, name, range(documents), random)
        wait_until_idle(services)
        before = set(points_of(services, WATCHED))
        collections = watch_all(services, receiver.port)
        coming = range(documents - 10, documents + int(SHARE_NEW * documents))
        web = opened.enter_context(KillableWeb(environment, log_file=tmp_path / "web.log")) if has_web else None
        adding = threading.Thread(target=add, args=(services, WATCHED, coming, Random(seed), web))
        adding.start()
        for _ in range(kills):
            time.sleep(random.uniform(0.2, 1.5))
            target = random.choice((Target.WORKER, Target.WORKER, Target.EDGE, *([None, None] if web else [])))
            if target is None:
                assert web is not None
                web.kill()
                continue
            supervisor.kill(Kill(target, random.randrange(2), at_work=True, gap_s=0, pause_s=random.uniform(0, 0.5)))
        adding.join()
        wait_until_idle(services)
        points = points_of(services, WATCHED)
        new = {point_id: point for point_id, point in points.items() if point_id not in before}
        _, standing = services.catalog.standing.in_collection(WATCHED)
        wanted = {each.id: wanted_of(each, new) for each in standing}
        told: dict[str, set[str]] = {}
        for search_id in collections:
            kept = services.catalog.standing.matches(OPERATOR.name, search_id, limit=5_000)
            told[search_id] = {each.chunk_id for each in kept}
            assert len(kept) == len(told[search_id])
        assert {each: told[each] for each in wanted} == wanted
        assert any(wanted.values())
        assert not any(found for search, found in told.items() if collections[search] == OTHER)
        wait_until_delivered(services, told, receiver)
        by_web = web.kills if web is not None else 0
        assert web is None or (by_web > 0 and read_and_mark(web, list(collections)) == told)
    # A delivery that came twice, by the same id, told the same; no chunk is in two of them.
    assert all(len(set(sent)) == 1 for sent in receiver.deliveries.values())
    once = Counter((sent[0][0], chunk) for sent in receiver.deliveries.values() for chunk in sent[0][1])
    assert set(once.values()) == {1}
    assert sum(supervisor.kills.values()) + by_web == kills
