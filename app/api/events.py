"""Server-sent events: a response in several parts, each sent as soon as it is computed."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from itertools import chain
from typing import Any

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from app.api.problems import problem
from app.errors import GircseError
from app.types.access import message_for_caller

MEDIA_TYPE = "text/event-stream"

_log = logging.getLogger(__name__)


def described_events(meaning: str, *names: str) -> dict[str, Any]:
    """The OpenAPI schema of one event. `meaning` describes its data, `names` are the possible event names."""
    fields = {
        "event": {"type": "string", "enum": [*names]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    }
    return {"type": "object", "properties": fields, "required": [*fields], "description": meaning}


def wants(request: Request, media_type: str) -> bool:
    """Whether the Accept header names this media type. `*/*` does not count: it gets JSON."""
    accepted = request.headers.get("accept", "").lower().split(",")
    return any(item.partition(";")[0].strip() == media_type for item in accepted)


def event(name: str, data: BaseModel) -> bytes:
    # The JSON is one line (line breaks in texts are escaped), as `data:` requires.
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def event_response(events: Iterator[bytes]) -> StreamingResponse:
    """Stream the events. The first is computed before the response starts, so that its errors still set the status."""
    first = next(events, b"")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_until_error(chain((first,), events)), media_type=MEDIA_TYPE, headers=headers)


def _until_error(events: Iterator[bytes]) -> Iterator[bytes]:
    """Send an error after the first event as the last event, `problem`: the status is already sent."""
    try:
        yield from events
    except GircseError as error:
        yield _problem_event(error.status, message_for_caller(error), type(error).__name__)
    except Exception:  # noqa: BLE001  # no handler follows once the response has started
        error_id = uuid.uuid4().hex[:12]
        _log.exception("Error %s in a stream of events", error_id)
        yield _problem_event(500, f"Internal error. The server log has the details under {error_id}.", None)


def _problem_event(status: int, detail: str, title: str | None) -> bytes:
    return b"event: problem\ndata: " + bytes(problem(status, detail, title=title).body) + b"\n\n"
