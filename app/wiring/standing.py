"""Runs the delivery of standing searches' matches by webhook and alert."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from app.collections.deliveries import Deliverer
from app.collections.standing_news import NewsReader
from app.services import Services
from app.types.standing import Channel
from app.wiring.sources import is_allowed_address
from ingest.alerts import AlertSender
from ingest.webhooks import WebhookSender


def deliverer_of(services: Services) -> Deliverer:
    return Deliverer(
        services.catalog,
        NewsReader(services.catalog, services.index),
        {
            Channel.WEBHOOK: WebhookSender(is_allowed=is_allowed_address(services.settings)),
            Channel.ALERT: AlertSender(services.alerts),
        },
        lease=timedelta(seconds=services.settings.lease_s),
    )


@contextmanager
def delivering_alerts(services: Services, stop: threading.Event) -> Iterator[None]:
    """Deliver matches in a thread during the block. When `stop` is set, the current delivery is finished first."""
    thread = threading.Thread(target=deliverer_of(services).run, args=(stop,), name="deliveries", daemon=True)
    thread.start()
    yield
