"""Validates what the handlers are sent: each handler is a public endpoint, whatever the page shows.

Checks types, lengths and ranges of what comes in, and turns whatever goes wrong into a message that a person can read.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from app.errors import GircseError, InputError
from ui.render.text import render_error

logger = logging.getLogger(__name__)


def read_text(value: object, *, name: str, max_chars: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"The {name} must be text, not {type(value).__name__}.")
    if len(value) > max_chars:
        raise InputError(
            f"The {name} is {len(value):,} characters long; at most {max_chars:,} are allowed. Please shorten it."
        )
    return value.strip()


def read_whole_number(value: object, *, name: str, minimum: int, maximum: int) -> int:
    """Sliders send 5 or 5.0; NaN, 5.5, True and "5" are refused."""
    is_whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not is_whole or not minimum <= value <= maximum:  # type: ignore[operator]
        raise InputError(f"The {name} must be a whole number from {minimum} to {maximum}, not {str(value)[:40]!r}.")
    return int(value)  # type: ignore[call-overload]


def read_choice(value: object, *, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"Choose a {name} first.")
    if len(value) > 200:
        raise InputError(f"That {name} does not exist.")
    return value


def describe_error(error: Exception) -> str:
    """HTML for the person. Unexpected errors are logged under an id, and only the id is shown."""
    if isinstance(error, GircseError):
        return render_error(str(error))
    incident = uuid.uuid4().hex[:8]
    logger.error("page handler failed, incident %s", incident, exc_info=error)
    return render_error(
        f"Something went wrong on our side. If it happens again, look for incident {incident} in the server's log.",
        title="That did not work",
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
