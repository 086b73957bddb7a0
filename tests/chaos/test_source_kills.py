"""Every kind of source from its real server while its worker is killed in the middle of rounds: what the server has is
there in the end, each once and as it is now, and what is the same is not fetched again."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import source_origins
from chaos_plan import Kill, Target
from chaos_processes import Supervisor, begin_imports
from chaos_run import DTYPE, LEASE_S, wait_until_idle, worker_environment
from patience import PATIENCE_S, wait_until
from source_origins import Origin, git_origin, mail_origin, s3_origin, web_origin

from app.services import Services
from app.settings import Settings
from app.types.access import OPERATOR
from app.types.documents import DocumentState
from app.types.sources import RecurringSource
from app.wiring.services import open_services

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.timeout(900),
    pytest.mark.long,
]

KINDS = ("sitemap", "git", "imap", "s3")
ITEMS, KILLS = 30, 6
_PATIENCE_S = 300.0
_LOOK_S = 0.02


@pytest.fixture(params=KINDS)
def origin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    monkeypatch.setattr(source_origins, "HOST", "127.0.0.1")  # the worker asks the resolver of the machine
    folder = tmp_path / "origin"
    folder.mkdir()
    with ExitStack() as opened:
        if request.param == "s3":
            server = pytest.importorskip("moto.server").ThreadedMotoServer(
                ip_address="127.0.0.1", port=0, verbose=False
            )
            server.start()
            opened.callback(server.stop)
            yield opened.enter_context(s3_origin(folder, server.get_host_and_port()))
            return
        open_origin: Any = {"sitemap": web_origin, "git": git_origin, "imap": mail_origin}[request.param]
        yield opened.enter_context(open_origin(folder))


def texts(services: Services) -> list[str]:
    index = services.catalog.collection("library").active_index
    points = services.index.retrieve(index, list(services.index.point_ids(index)))
    return sorted(str(each.payload["page_content"]) for each in points)


def end_lease(home: Path) -> None:
    """As its three minutes do. Of one that is not held: it is due."""
    with closing(sqlite3.connect(home / "catalog.db", timeout=PATIENCE_S)) as catalog, catalog:
        catalog.execute("UPDATE recurring_source SET next_at = '2000-01-01 00:00:00.000000'")


def kill_in_rounds(services: Services, supervisor: Supervisor, source: RecurringSource, random: Random) -> int:
    """How many of the kills met a round that was under way."""
    met = 0
    for _ in range(KILLS):
        before = services.catalog.sources.get(source.id).fencing_token
        wanted = len(services.catalog.sources.marks(source.id)) + random.randrange(1, ITEMS // KILLS)
        end_lease(services.settings.home)
        wait_until(partial(has_begun, services, source, before))
        wait_until(partial(has_marks_or_ended, services, source, wanted))
        met += services.catalog.sources.get(source.id).is_running
        supervisor.kill(Kill(Target.WORKER, 0, at_work=False, gap_s=0, pause_s=0))
    end_lease(services.settings.home)
    return met


def has_begun(services: Services, source: RecurringSource, token: int) -> bool:
    return services.catalog.sources.get(source.id).fencing_token > token


def has_marks_or_ended(services: Services, source: RecurringSource, count: int) -> bool:
    is_running = services.catalog.sources.get(source.id).is_running
    return len(services.catalog.sources.marks(source.id)) >= count or not is_running


def is_finished(services: Services, source: RecurringSource) -> bool:
    found = services.catalog.sources.get(source.id)
    return not found.is_running and found.items == ITEMS


def test_rounds_that_are_killed_bring_everything_once(origin: Origin, model: Path, tmp_path: Path) -> None:
    begin_imports()
    random, home = Random(1), tmp_path / "home"
    home.mkdir()
    for number in range(ITEMS):
        origin.put(f"n{number}", f"Of number {number}.")
    settings = Settings(home=home, model=str(model), dtype=DTYPE, lease_s=LEASE_S)
    environment = {
        **worker_environment(home, str(model)),
        "GIRCSE_ALLOW_PRIVATE_URLS": "true",
        "GIRCSE_CREDENTIALS_FOLDER": str(origin.folder),
        **({"SSL_CERT_FILE": str(origin.authority)} if hasattr(origin, "authority") else {}),
    }
    with ExitStack() as opened:
        services = opened.enter_context(open_services(settings))
        services.library.create_collection("library", document_steps=2)
        source = services.catalog.sources.add(
            "library", origin.kind, origin.address, every=timedelta(days=1), removes=True, owner=OPERATOR.name,
            options=origin.options,
        )  # fmt: skip
        supervisor = opened.enter_context(Supervisor(home, environment, logs=tmp_path, workers=1))
        met = kill_in_rounds(services, supervisor, source, random)
        wait_until(lambda: is_finished(services, source))
        wait_until_idle(services)
        assert met >= KILLS // 2, supervisor.worker_logs()[-3000:]
        wanted = {f"Of number {number}." for number in range(ITEMS)}
        found = texts(services)
        assert len(found) == ITEMS
        assert all(any(each in text for text in found) for each in wanted)
        origin.put("n0", "Of nothing.")
        origin.delete("n1")
        origin.put("more", "Of more.")
        kill_in_rounds(services, supervisor, source, random)
        wait_until(lambda: any("Of more." in each for each in texts(services)))
        wait_until(lambda: is_finished(services, source))
        wait_until_idle(services)
        wait_until(lambda: len(texts(services)) == ITEMS)
        found = texts(services)
        for told in ("Of nothing.", "Of more."):
            assert sum(told in each for each in found) == 1
        assert not any(each in text for each in ("Of number 0.", "Of number 1.") for text in found)
        documents = services.catalog.documents("library")
        assert len({each.uri for each in documents}) == len(documents) == ITEMS
        assert {each.state for each in documents} == {DocumentState.READY}
