"""The log on stderr: text lines or JSON, each with the id of the request that caused it.

A message always stays on one line: control characters are escaped.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]

OWN_LOGGERS = ("app", "embedder", "ingest", "ui")
# Libraries that log every oddity of a document. Our report on the document has all that matters.
CHATTY_LIBRARIES = ("pypdfium2",)
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

_request_id: ContextVar[str] = ContextVar("request_id", default="")
# C0 and C1 controls, and two Unicode separators at which some viewers break lines.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OWN_FIELDS = "gircse_fields"


def begin_request(wanted: str | None) -> str:
    """Sets and returns the request id of this context: `wanted`, the client's, if it is well-formed, else a new one."""
    request_id = wanted if wanted and REQUEST_ID.fullmatch(wanted) else uuid.uuid4().hex
    _request_id.set(request_id)
    return request_id


def current_request_id() -> str:
    """The request id of this context; "" outside of requests."""
    return _request_id.get()


def fields(**values: str | int | float) -> dict[str, dict[str, str | int | float]]:
    """Makes the `extra` of a log call. The values become members of the JSON object, or `name=value` in a text line."""
    return {_OWN_FIELDS: values}


def set_up_logging(log_format: LogFormat, level: str, *, stream: TextIO | None = None) -> None:
    """Sets up the process's log, unless the root logger already has handlers, as in a test runner.

    `level` applies to our own loggers. Libraries log from WARNING on, or from DEBUG on if that is the level.
    """
    is_debug = level == "DEBUG"
    for name in CHATTY_LIBRARIES:
        logging.getLogger(name).setLevel(logging.DEBUG if is_debug else logging.ERROR)
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else LineFormatter())
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if is_debug else logging.WARNING)
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)


class LineFormatter(logging.Formatter):
    """Formats a record as one line. `time LEVEL logger [request]: message`, followed by an indented traceback, if there
    is one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = _moment(record).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        request = f" [{current_request_id()}]" if current_request_id() else ""
        more = "".join(f" {name}={value}" for name, value in _fields_of(record).items())
        line = _in_one_line(f"{moment} {record.levelname} {record.name}{request}: {record.getMessage()}{more}")
        below = _traceback_of(self, record)
        return "\n".join([line, *(f"    {_in_one_line(text)}" for text in below.splitlines())])


class JsonFormatter(logging.Formatter):
    """One JSON object in ASCII per line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _moment(record).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if current_request_id():
            entry["request_id"] = current_request_id()
        entry |= _fields_of(record)
        if traceback := _traceback_of(self, record):
            entry["traceback"] = traceback
        return json.dumps(entry, default=str)


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _fields_of(record: logging.LogRecord) -> dict[str, str | int | float]:
    return getattr(record, _OWN_FIELDS, {})


def _traceback_of(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    parts += [formatter.formatStack(record.stack_info)] if record.stack_info else []
    return "\n".join(parts)


def _in_one_line(text: str) -> str:
    return _CONTROLS.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)
