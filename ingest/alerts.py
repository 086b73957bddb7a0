"""Sends the new matches of saved searches by mail or chat, to targets that the operator configured; extra
`[alerts]`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from app.errors import DeliveryError
from app.types.alerts import AlertTarget
from app.types.standing import Delivery, News, StandingSearch

_SHOWN, _SHOWN_CHARACTERS = 10, 300


class AlertSender:
    def __init__(self, targets: Mapping[str, AlertTarget]) -> None:
        self._targets = targets

    def __call__(self, delivery: Delivery, search: StandingSearch, news: Sequence[News]) -> None:
        """Sends one alert. Raises DeliveryError; `is_final` where a retry cannot help."""
        target = self._targets.get(search.watch.alert or "")
        if target is None or not target.is_for(search.owner):
            raise DeliveryError(f"The alert {search.watch.alert!r} no longer exists.", is_final=True)
        import apprise

        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would log addresses, which hold credentials
        sender = apprise.Apprise()
        if not sender.add(target.url):
            raise DeliveryError(f"apprise cannot parse the address of the alert {search.watch.alert!r}.", is_final=True)
        title, body = written(delivery, search, news)
        if not sender.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT):
            raise DeliveryError(f"The alert {search.watch.alert!r} could not be sent.")


def written(delivery: Delivery, search: StandingSearch, news: Sequence[News]) -> tuple[str, str]:
    """Title and body of the alert, as plain text: at most 10 passages of at most 300 characters."""
    lines = []
    for match in news[:_SHOWN]:
        text = " ".join(match.text.split())
        shown = text[:_SHOWN_CHARACTERS] + ("…" if len(text) > _SHOWN_CHARACTERS else "")
        lines += [match.title or match.uri, shown, ""]
    if len(news) > _SHOWN:
        lines += [f"… and {len(news) - _SHOWN} more", ""]
    lines.append(f"{delivery.id}")
    name = " ".join(search.name.split())
    return f"{len(news)} new in {search.collection}: {name}", "\n".join(lines)
