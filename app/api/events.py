"""Server-sent events: an answer in several pieces, each of which is shown as soon as it is there."""

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

MEDIA_TYPE = "text/event-stream"

_log = logging.getLogger(__name__)


def described_events(meaning: str, *names: str) -> dict[str, Any]:
    """Of each event, for the description of the API."""
    fields = {
        "event": {"type": "string", "enum": [*names]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    }
    return {"type": "object", "properties": fields, "required": [*fields], "description": meaning}


def wants(request: Request, media_type: str) -> bool:
    """Only who asks for it by name: `*/*` is JSON."""
    accepted = request.headers.get("accept", "").lower().split(",")
    return any(each.partition(";")[0].strip() == media_type for each in accepted)


def event(name: str, data: BaseModel) -> bytes:
    # JSON has no line breaks of its own, and those within texts are escaped: one line is one event.
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def event_response(events: Iterator[bytes]) -> StreamingResponse:
    """The first event is computed before the answer begins, so that a request that cannot be answered is a problem."""
    first = next(events, b"")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_until_error(chain((first,), events)), media_type=MEDIA_TYPE, headers=headers)


def _until_error(events: Iterator[bytes]) -> Iterator[bytes]:
    """An error after the first event becomes the last event: the status is already sent."""
    try:
        yield from events
    except GircseError as error:
        yield _problem_event(error.status, str(error), type(error).__name__)
    except Exception:  # noqa: BLE001  # the outermost handler of what is streamed
        error_id = uuid.uuid4().hex[:12]
        _log.exception("Error %s in a stream of events", error_id)
        yield _problem_event(500, f"Something went wrong that should not; the log names it {error_id}.", None)


def _problem_event(status: int, detail: str, title: str | None) -> bytes:
    return b"event: problem\ndata: " + bytes(problem(status, detail, title=title).body) + b"\n\n"
