"""Syncs scheduled sources in threads beside a worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.access.quotas import UserQuotas
from app.access.source_service import allowance_by_owner
from app.collections.recurring_sources import PLACES, SourceSchedule
from app.ports.sources import SourceReader
from app.services import Services
from app.types.sources import SourceKind
from ingest.recurring.syncs import SyncingReader

_LEAVING_S = 5.0  # child processes end at once; this lets a document finish being stored


@contextmanager
def syncing_sources(services: Services, stop: threading.Event) -> Iterator[None]:
    """Sync sources during the block. When `stop` is set, running syncs are abandoned; the next worker resumes them."""
    catalog = services.catalog
    schedule = SourceSchedule(
        catalog=catalog,
        library=services.library,
        readers=source_readers(services),
        allowance_of=allowance_by_owner(catalog, UserQuotas(catalog.access, services.settings)),
    )
    threads = [
        threading.Thread(target=schedule.run, args=(stop,), name=f"sources-{number}", daemon=True)
        for number in range(PLACES)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        until = time.monotonic() + _LEAVING_S
        for thread in threads if stop.is_set() else ():
            thread.join(max(0, until - time.monotonic()))


def source_readers(services: Services) -> Mapping[SourceKind, SourceReader]:
    settings = services.settings
    reader = SyncingReader(
        credentials=services.source_credentials, may_be_private=settings.allow_private_urls, folder=settings.home
    )
    return dict.fromkeys(SourceKind, reader)
