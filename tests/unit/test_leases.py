"""Who listens to leases hears of them in order, and nothing after it stopped to listen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from patience import PATIENCE_S

from app.testing import text_source
from ingest.leases import LeaseKeeper

LEASE = timedelta(seconds=30)


def test_nobody_hears_of_leases_after_it_stopped_to_listen(toy_services_factory: Callable[..., Any]) -> None:
    services = toy_services_factory("leases").services
    services.library.ensure_collection("library")
    services.library.add_document("library", text_source("a.txt", "One sentence."))
    jobs = services.catalog.shards.claim("a driver", collection="library", limit=1, lease=LEASE)
    told: list[str] = []
    reached, go = threading.Event(), threading.Event()

    def slowly(lost: set[str], seconds: float) -> None:
        if told:
            reached.set()
            assert go.wait(PATIENCE_S)
        told.append("told")

    def leave() -> None:
        leases.listen(None)
        told.append("left")

    with LeaseKeeper(services.catalog.shards, jobs, lease=LEASE) as leases:
        leases.listen(slowly)
        assert told == ["told"]  # at once
        assert reached.wait(PATIENCE_S)  # by the thread that looks them up
        leaving = threading.Thread(target=leave)
        leaving.start()
        leaving.join(0.1)
        assert leaving.is_alive()
        go.set()
        leaving.join(PATIENCE_S)
    assert told == ["told", "told", "left"]
