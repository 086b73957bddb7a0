"""Sources that come again, in a thread beside a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.access.authorized_sources import allowance_by_owner
from app.access.quotas import UserQuotas
from app.collections.recurring_sources import SourceSchedule
from app.services import Services
from app.wiring.sources import url_reader
from ingest.web_sources import WebSourceReader


@contextmanager
def fetching_again(services: Services, stop: threading.Event) -> Iterator[None]:
    """What is being fetched when `stop` is set ends."""
    catalog = services.catalog
    schedule = SourceSchedule(
        catalog=catalog,
        library=services.library,
        reader=WebSourceReader(url_reader(services.settings)),
        allowance_of=allowance_by_owner(catalog, UserQuotas(catalog, services.settings)),
    )
    threading.Thread(target=schedule.run, args=(stop,), name="sources", daemon=True).start()
    yield
