"""Validates what the handlers are sent: each handler is a public endpoint, whatever the page shows.

Checks types, lengths and ranges of what comes in, and turns whatever goes wrong into a message that a person can read.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from app.errors import GircseError, InputError
from ui.language import _, later, number
from ui.render.text import render_error

FIELDS = (
    later("query"),
    later("instruction"),
    later("number of steps"),
    later("number of results"),
    later("collection"),
    later("lens"),
    later("name of the lens"),
    later("grade"),
    later("filter"),
    later("address"),
    later("list of addresses"),
    later("passage"),
    later("search"),
    later("name of the search"),
    later("name"),
    later("size of a passage"),
    later("overlap"),
    later("values"),
    later("words"),
    later("filters"),
    later("passages to resemble"),
    later("passages to avoid"),
    later("phrases to exclude"),
    later("phrases as they are written"),
    later("word"),
    later("title"),
    later("phrase"),
    later("choice"),
    later("import"),
    later("measurement"),
    later("collections"),
    later("ways to find"),
    later("numbers of steps"),
    later("instructions"),
    later("judges"),
)
"""What the fields of the pages are called in messages."""

logger = logging.getLogger(__name__)


def _called(name: str, side: str) -> str:
    """`side`: the one of two that the page shows beside each other."""
    return f"{_(name)} {side}".strip()


def read_text(value: object, *, name: str, max_chars: int, side: str = "") -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(
            _("The {name} must be text, not {type}.").format(name=_called(name, side), type=type(value).__name__)
        )
    if len(value) > max_chars:
        raise InputError(
            _("The {name} has {count} characters; the limit is {max_chars}. Shorten it.").format(
                name=_called(name, side), count=number(len(value)), max_chars=number(max_chars)
            )
        )
    return value.strip()


def read_whole_number(value: object, *, name: str, minimum: int, maximum: int, side: str = "") -> int:
    """Sliders send 5 or 5.0; NaN, 5.5, True and "5" are refused."""
    is_whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not is_whole or not minimum <= value <= maximum:  # type: ignore[operator]
        raise InputError(
            _("The {name} must be a whole number from {minimum} to {maximum}, not {value!r}.").format(
                name=_called(name, side), minimum=minimum, maximum=maximum, value=str(value)[:40]
            )
        )
    return int(value)  # type: ignore[call-overload]


def read_choice(value: object, *, name: str, side: str = "") -> str:
    if not isinstance(value, str) or not value:
        raise InputError(_("Choose a {name} first.").format(name=_called(name, side)))
    if len(value) > 200:
        raise InputError(_("This {name} does not exist.").format(name=_called(name, side)))
    return value


def share_or_zero(text: str | None) -> float:
    """Of an address: from 0 to 1; 0 where it is nothing of the kind."""
    return float(text) if text and re.fullmatch(r"0\.\d|1", text) else 0.0


def whole_number_or(text: str | None, default: int, most: int) -> int:
    """Of an address: from 1 on, else the default."""
    return int(text) if text and text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= most else default


def describe_error(error: Exception) -> str:
    """HTML for the person. Unexpected errors are logged under an id, and only the id is shown."""
    if isinstance(error, GircseError):
        return render_error(str(error))
    incident = uuid.uuid4().hex[:8]
    logger.error("page handler failed, incident %s", incident, exc_info=error)
    return render_error(
        _("Internal error. If it happens again, search the server log for incident {incident}.").format(
            incident=incident
        ),
        title=_("That did not work"),
    )


def as_handler(
    handler: Callable[..., tuple[Any, ...]], *, outputs: int, on_error: object = ""
) -> Callable[..., tuple[Any, ...]]:
    """The outermost layer of a handler: on failure its first output is the message, and the others are `on_error`."""

    def answer(*values: Any) -> tuple[Any, ...]:
        try:
            return handler(*values)
        except Exception as error:  # noqa: BLE001
            return (describe_error(error), *[on_error] * (outputs - 1))

    return answer


def as_stream_handler(
    handler: Callable[..., Iterator[tuple[Any, ...]]], *, outputs: int, on_error: object = ""
) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """The same for a handler that answers bit by bit."""

    def answer(*values: Any) -> Iterator[tuple[Any, ...]]:
        try:
            yield from handler(*values)
        except Exception as error:  # noqa: BLE001
            yield (describe_error(error), *[on_error] * (outputs - 1))

    return answer


def event_data(event: Any) -> dict[str, Any]:
    """What the page's script sent along with an event: untrusted, like every other input."""
    return event._data if isinstance(event._data, dict) else {}
