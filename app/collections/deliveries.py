"""Delivers matches of standing searches by webhook, mail and chat, with leases and retries like jobs.

A process killed between sending and recording sends the delivery again. Its id stays the same, so that receivers can
recognise the repetition.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from app.collections.standing_news import NewsReader
from app.errors import DeliveryError, GircseError, UnavailableError
from app.types.access import may_see
from app.types.standing import Channel, Delivery, News, StandingSearch

if TYPE_CHECKING:  # avoids importing SQL
    from app.catalog import SqlCatalog

log = logging.getLogger(__name__)

Send = Callable[[Delivery, StandingSearch, Sequence[News]], None]  # raises DeliveryError

DEFAULT_LEASE = timedelta(minutes=1)
MAX_ATTEMPTS = 14  # the last attempt follows 15 hours after the first
_FIRST_RETRY_IN = timedelta(seconds=30)
_LONGEST_RETRY_IN = timedelta(hours=3)


class Deliverer:
    """Sends due deliveries. Any number of deliverers may work on one catalog."""

    def __init__(
        self,
        catalog: SqlCatalog,
        news: NewsReader,
        senders: Mapping[Channel, Send],
        *,
        lease: timedelta = DEFAULT_LEASE,
        poll_s: float = 2.0,
    ) -> None:
        """`lease`: how long a claimed delivery is reserved for this process."""
        self._lease = lease
        self._catalog = catalog
        self._news = news
        self._senders = senders
        self._poll_s = poll_s

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if not self.run_once():
                    stop.wait(self._poll_s)
            except UnavailableError as error:
                log.warning("Deliveries are waiting: %s", error)
                stop.wait(self._poll_s)

    def run_once(self) -> bool:
        """Send one due delivery. Returns False if none is due."""
        self._catalog.deliveries.form()
        delivery = self._catalog.deliveries.claim(lease=self._lease)
        if delivery is None:
            return False
        try:
            self._send(delivery)
        except DeliveryError as error:
            if error.is_final or delivery.attempts >= MAX_ATTEMPTS:
                log.warning("Gave up on delivery %s: %s", delivery.id, error)
                self._catalog.deliveries.finish(delivery, error=str(error))
            else:
                log.info("Delivery %s failed and will be retried: %s", delivery.id, error)
                self._catalog.deliveries.put_off(delivery, str(error), retry_in=retry_in(delivery.attempts))
        except UnavailableError:
            raise
        except GircseError as error:
            self._catalog.deliveries.finish(delivery, error=str(error))
        except Exception:  # an error in one delivery must not end all of them
            log.exception("Delivery %s failed", delivery.id)
            reason = "Internal error; see the server's log."
            self._catalog.deliveries.put_off(delivery, reason, retry_in=retry_in(delivery.attempts))
        return True

    def _send(self, delivery: Delivery) -> None:
        found = self._catalog.deliveries.delivered(delivery)
        if found is None:
            return
        search, kept = found
        users = {user.name: user for user in self._catalog.access.users()}
        if not may_see(users, search.owner, search.collection):
            raise DeliveryError("Its owner may no longer read the collection.", is_final=True)
        news = self._news.read(search.collection, kept)
        if news:  # empty if all passages were deleted in the meantime
            self._senders[delivery.channel](delivery, search, news)
        self._catalog.deliveries.finish(delivery)


def retry_in(attempts: int) -> timedelta:
    """The pause after the given number of attempts: 30 s, doubled each time, at most three hours."""
    return min(_LONGEST_RETRY_IN, _FIRST_RETRY_IN * 2 ** min(attempts - 1, 16))
