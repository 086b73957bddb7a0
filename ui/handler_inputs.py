"""Validates handler inputs: each handler is a public endpoint, whatever the page shows.

Checks types, lengths and ranges, and turns errors into readable messages.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from app.errors import GircseError, InputError
from app.types.access import message_for_caller
from ui.language import _, later, number
from ui.render.text import render_error

FIELDS = (
    later("query"),
    later("instruction"),
    later("number of steps"),
    later("number of hits"),
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
    later("evaluation"),
    later("collections"),
    later("ways to find"),
    later("numbers of steps"),
    later("instructions"),
    later("judges"),
)
"""What the fields of the pages are called in messages."""

logger = logging.getLogger(__name__)


def _called(name: str, side: str) -> str:
    """The translated field name. `side` is A or B on the compare page."""
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
    """Accepts 5 and 5.0 from sliders; rejects NaN, 5.5, True and "5"."""
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
    """Parses a share from 0 to 1 from an address; 0 if invalid."""
    return float(text) if text and re.fullmatch(r"0\.\d|1", text) else 0.0


def whole_number_or(text: str | None, default: int, most: int) -> int:
    """Parses a number from 1 to `most` from an address; the default if invalid."""
    return int(text) if text and text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= most else default


def describe_error(error: Exception) -> str:
    """An error as HTML. Unexpected errors are logged under an incident id; the page shows only the id."""
    if isinstance(error, GircseError):
        return render_error(message_for_caller(error))
    incident = uuid.uuid4().hex[:8]
    logger.error("page handler failed, incident %s", incident, exc_info=error)
    return render_error(
        _(
            "Internal error. Try again. If it fails again, tell the operator of this server the incident number "
            "{incident}."
        ).format(incident=incident),
        title=_("That did not work"),
    )


def as_handler(
    handler: Callable[..., tuple[Any, ...]], *, outputs: int, on_error: object = ""
) -> Callable[..., tuple[Any, ...]]:
    """Wraps a handler. On failure the first output is the error message and all others are `on_error`."""

    def answer(*values: Any) -> tuple[Any, ...]:
        try:
            return handler(*values)
        except Exception as error:  # noqa: BLE001
            return (describe_error(error), *[on_error] * (outputs - 1))

    return answer


def as_stream_handler(
    handler: Callable[..., Iterator[tuple[Any, ...]]], *, outputs: int, on_error: object = ""
) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """Like `as_handler`, for a handler that yields partial results."""

    def answer(*values: Any) -> Iterator[tuple[Any, ...]]:
        try:
            yield from handler(*values)
        except Exception as error:  # noqa: BLE001
            yield (describe_error(error), *[on_error] * (outputs - 1))

    return answer


def event_data(event: Any) -> dict[str, Any]:
    """The data that the page's script sent with an event; untrusted."""
    return event._data if isinstance(event._data, dict) else {}
