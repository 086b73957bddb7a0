"""Delivers matches of standing searches by webhook, mail and chat, with leases and retries like jobs.

A process killed between sending and recording sends the delivery again. Its id stays the same, so that receivers can
recognise the repetition.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
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
_AT_ONCE, _OF_OWNER = 4, 2
_FIRST_RETRY_IN = timedelta(seconds=30)
_LONGEST_RETRY_IN = timedelta(hours=3)


class Deliverer:
    """Sends due deliveries, a few at a time, and at most `_OF_OWNER` of one owner: a slow receiver delays nobody else.
    Any number of deliverers may work on one catalog.
    """

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
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()  # by owner

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set; then it waits for the deliveries in flight."""
        slots = threading.Semaphore(_AT_ONCE)
        while not stop.is_set():
            if not slots.acquire(timeout=self._poll_s):
                continue
            delivery = None
            try:
                delivery = self._claim()
            except UnavailableError as error:
                log.warning("Deliveries are waiting: %s", error)
            if delivery is None:
                slots.release()
                stop.wait(self._poll_s)
            else:
                thread = threading.Thread(target=self._run_slot, args=(delivery, slots), name="delivery", daemon=True)
                thread.start()
        for _ in range(_AT_ONCE):
            slots.acquire()

    def run_once(self) -> bool:
        """Send one due delivery. Returns False if none is due."""
        delivery = self._claim()
        if delivery is None:
            return False
        self._deliver(delivery)
        return True

    def _claim(self) -> Delivery | None:
        self._catalog.deliveries.form()
        with self._lock:
            in_flight = dict(self._in_flight)
        delivery = self._catalog.deliveries.claim(lease=self._lease, in_flight=in_flight, most_of_owner=_OF_OWNER)
        if delivery is not None:
            with self._lock:
                self._in_flight[delivery.owner] += 1
        return delivery

    def _run_slot(self, delivery: Delivery, slots: threading.Semaphore) -> None:
        try:
            self._deliver(delivery)
        except UnavailableError as error:
            log.warning("Delivery %s waits until its lease ends: %s", delivery.id, error)
        finally:
            slots.release()

    def _deliver(self, delivery: Delivery) -> None:
        try:
            self._send_or_record(delivery)
        finally:
            with self._lock:
                self._in_flight[delivery.owner] -= 1
                if not self._in_flight[delivery.owner]:
                    del self._in_flight[delivery.owner]

    def _send_or_record(self, delivery: Delivery) -> None:
        """Send, and record the failure if it fails. Raises UnavailableError."""
        try:
            self._send(delivery)
        except DeliveryError as error:
            if error.is_final or delivery.attempts >= MAX_ATTEMPTS:
                log.warning("Gave up on delivery %s: %s", delivery.id, error)
                self._catalog.deliveries.finish(delivery, error=error.lasting_text)
            else:
                log.info("Delivery %s failed and will be retried: %s", delivery.id, error)
                self._catalog.deliveries.put_off(delivery, error.lasting_text, retry_in=retry_in(delivery.attempts))
        except UnavailableError:
            raise
        except GircseError as error:
            self._catalog.deliveries.finish(delivery, error=error.lasting_text)
        except Exception:  # an error in one delivery must not end all of them
            log.exception("Delivery %s failed", delivery.id)
            reason = "Internal error; see the server's log."
            self._catalog.deliveries.put_off(delivery, reason, retry_in=retry_in(delivery.attempts))

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
