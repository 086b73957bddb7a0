"""Sources that come again, in a thread beside a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec

from app.access.authorized_sources import allowance_by_owner
from app.access.quotas import UserQuotas
from app.collections.recurring_sources import SourceSchedule
from app.errors import InputError
from app.ports.sources import OpenedSource, SourceCredentials, SourceReader
from app.services import Services
from app.types.sources import Mark, RecurringSource, SourceKind
from app.wiring.sources import is_allowed_address, url_reader
from ingest.recurring.git import GitSourceReader
from ingest.recurring.hosts import HostGuard
from ingest.recurring.imap import ImapSourceReader
from ingest.recurring.web import WebSourceReader


@contextmanager
def fetching_again(services: Services, stop: threading.Event) -> Iterator[None]:
    """What is being fetched when `stop` is set ends."""
    catalog = services.catalog
    schedule = SourceSchedule(
        catalog=catalog,
        library=services.library,
        readers=source_readers(services),
        allowance_of=allowance_by_owner(catalog, UserQuotas(catalog, services.settings)),
    )
    threading.Thread(target=schedule.run, args=(stop,), name="sources", daemon=True).start()
    yield


def source_readers(services: Services) -> Mapping[SourceKind, SourceReader]:
    settings = services.settings
    web = WebSourceReader(url_reader(settings))
    guard = HostGuard(is_allowed=is_allowed_address(settings))
    credentials = services.source_credentials
    return {
        SourceKind.PAGE: web,
        SourceKind.FEED: web,
        SourceKind.SITEMAP: web,
        SourceKind.GIT: GitSourceReader(guard=guard, credentials=credentials, folder=settings.home),
        SourceKind.IMAP: ImapSourceReader(guard=guard, credentials=credentials),
        SourceKind.S3: _s3_reader(guard, credentials),
    }


def _s3_reader(guard: HostGuard, credentials: SourceCredentials) -> SourceReader:
    if find_spec("minio") is None:
        return _Missing()
    from ingest.recurring.s3 import S3SourceReader

    return S3SourceReader(guard=guard, credentials=credentials)


class _Missing:
    def open(
        self, source: RecurringSource, marks: Mapping[str, Mark], *, beat: Callable[[], None]
    ) -> AbstractContextManager[OpenedSource]:
        raise InputError("Buckets need the package minio: pip install 'gircse-search[sources]'")
