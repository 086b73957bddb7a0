"""Tells what standing searches found by webhook, mail and chat: leased like jobs, with ids that stay, until it arrives.

A kill between sending and its record sends the same delivery, by the same id, once more: receivers tell by the id.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from app.collections.standing_news import NewsReader
from app.errors import DeliveryError, GircseError, UnavailableError
from app.ports.ledger import Ledger
from app.types.access import may_see
from app.types.standing import Channel, Delivery, News, StandingSearch

log = logging.getLogger(__name__)

Send = Callable[[Delivery, StandingSearch, Sequence[News]], None]  # raises DeliveryError

DEFAULT_LEASE = timedelta(minutes=1)
MAX_ATTEMPTS = 14  # the last one 15 hours after the first
_FIRST_RETRY_IN = timedelta(seconds=30)
_LONGEST_RETRY_IN = timedelta(hours=3)


class Deliverer:
    """Any number may work on one catalog."""

    def __init__(
        self,
        catalog: Ledger,
        news: NewsReader,
        senders: Mapping[Channel, Send],
        *,
        lease: timedelta = DEFAULT_LEASE,
        poll_s: float = 2.0,
    ) -> None:
        """`lease`: so long a delivery is its sender's."""
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
                log.warning("Deliveries wait: %s", error)
                stop.wait(self._poll_s)

    def run_once(self) -> bool:
        """Sends one; False when none is due."""
        self._catalog.form_deliveries()
        delivery = self._catalog.claim_delivery(lease=self._lease)
        if delivery is None:
            return False
        try:
            self._send(delivery)
        except DeliveryError as error:
            if error.is_final or delivery.attempts >= MAX_ATTEMPTS:
                log.warning("Delivery %s is given up: %s", delivery.id, error)
                self._catalog.finish_delivery(delivery, error=str(error))
            else:
                log.info("Delivery %s is put off: %s", delivery.id, error)
                self._catalog.put_off_delivery(delivery, str(error), retry_in=retry_in(delivery.attempts))
        except UnavailableError:
            raise
        except GircseError as error:
            self._catalog.finish_delivery(delivery, error=str(error))
        except Exception:  # an error in one delivery must not end all of them
            log.exception("Delivery %s failed", delivery.id)
            reason = "It went wrong here; the log says more."
            self._catalog.put_off_delivery(delivery, reason, retry_in=retry_in(delivery.attempts))
        return True

    def _send(self, delivery: Delivery) -> None:
        found = self._catalog.delivered(delivery)
        if found is None:
            return
        search, kept = found
        users = {user.name: user for user in self._catalog.users()}
        if not may_see(users, search.owner, search.collection):
            raise DeliveryError("Its owner may not read the collection any more.", is_final=True)
        news = self._news.read(search.collection, kept)
        if news:  # else all of it was deleted meanwhile
            self._senders[delivery.channel](delivery, search, news)
        self._catalog.finish_delivery(delivery)


def retry_in(attempts: int) -> timedelta:
    """The pause after the n-th attempt: 30 s, a minute, two … three hours."""
    return min(_LONGEST_RETRY_IN, _FIRST_RETRY_IN * 2 ** min(attempts - 1, 16))
