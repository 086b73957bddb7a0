"""Error responses: the reason, the value, the remedy; never a traceback.

Problem details (RFC 9457), or the format of OpenAI, Cohere or TEI on the paths of their clients.
"""

from __future__ import annotations

import json
import logging
import tempfile
import uuid
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from app.errors import (
    ExhaustedError,
    FilesUnavailableError,
    GircseError,
    ThrottledError,
    UnavailableError,
    full_disk_reason,
    is_exhausted,
    is_full_disk,
)
from app.runtime.logs import current_request_id
from app.types.access import acting_as, message_for_caller
from embedder.server.client_errors import client_error, is_client_path, place_in_body, unreadable_json

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger(__name__)


def add_problem_handlers(api: FastAPI) -> None:
    api.add_exception_handler(GircseError, _answer_known)
    api.add_exception_handler(RequestValidationError, _answer_invalid)
    api.add_exception_handler(HTTPException, _answer_http)
    api.add_exception_handler(OSError, _answer_full_disk)
    api.add_exception_handler(Exception, _answer_unexpected)


def problem(status: int, detail: str, *, title: str | None = None, **more: str) -> Response:
    if request_id := current_request_id():
        more = {**more, "request_id": request_id}
    body = {"type": "about:blank", "title": title or HTTPStatus(status).phrase, "status": status, "detail": detail}
    # ASCII escapes: a message may quote a lone surrogate, which UTF-8 cannot carry.
    return Response(json.dumps(body | more), status_code=status, media_type=MEDIA_TYPE)


def answer_error(
    path: str,
    status: int,
    detail: str,
    *,
    title: str | None = None,
    code: str | None = None,
    param: str | None = None,
    **more: str,
) -> Response:
    """An error response in the format that clients of `path` expect.

    Only problem details have `title` and `more`; only OpenAI's and Cohere's format have `code` and `param`.
    """
    if is_client_path(path):
        return client_error(path, status, detail, code=code, param=param)
    return problem(status, detail, title=title, **more)


async def _answer_known(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, GircseError) else 500
    response = answer_error(request.url.path, status, detail_for(request.scope, error), title=type(error).__name__)
    set_retry_after(response, error)
    return response


def detail_for(scope: Scope, error: Exception) -> str:
    """The message for the client of this request. Only to administrators a fault of the service names addresses and
    paths, such as those of the database; the log has them. Without a login it says nothing of the cause.
    """
    if not isinstance(error, GircseError):
        return str(error)
    principal = scope.get("state", {}).get("principal")
    if principal is not None:
        with acting_as(principal):
            return message_for_caller(error)
    if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return str(error)
    _log.error("A request without a login failed: %s", error)
    return "The service cannot answer at present. Try again soon; its log has the reason."


def set_retry_after(response: Response, error: Exception) -> None:
    if isinstance(error, UnavailableError):
        response.headers["Retry-After"] = "1" if error.status == HTTPStatus.TOO_MANY_REQUESTS else "5"
    if isinstance(error, ThrottledError):
        response.headers["Retry-After"] = str(error.retry_after_s)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    details = error.errors() if isinstance(error, RequestValidationError) else []
    lines = [_error_line(detail, request.url.path) for detail in details]
    param = next((place for detail in details for place in detail["loc"][1:2] if isinstance(place, str)), None)
    return answer_error(request.url.path, 422, "; ".join(lines), param=param)


def _error_line(detail: dict[str, Any], path: str) -> str:
    if unreadable := unreadable_json(detail):
        return unreadable
    # The fields of other APIs are all in the body.
    place = place_in_body(detail["loc"], path) if is_client_path(path) else ".".join(map(str, detail["loc"]))
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


async def _answer_http(request: Request, error: Exception) -> Response:
    if isinstance(error.__cause__, UnicodeDecodeError):  # FastAPI says only that parsing failed
        return answer_error(request.url.path, 400, f"The body is not UTF-8 ({error.__cause__}). Send JSON in UTF-8.")
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = str(error.detail) if isinstance(error, HTTPException) else ""
    response = answer_error(request.url.path, status, detail)
    response.headers.update((error.headers if isinstance(error, HTTPException) else None) or {})
    return response


async def _answer_full_disk(request: Request, error: Exception) -> Response:
    """Answer a full disk that the application did not report itself: large uploads are spooled to a temporary file."""
    if not is_full_disk(error):
        raise error
    return await _answer_known(request, FilesUnavailableError(full_disk_reason(tempfile.gettempdir())))


async def _answer_exhausted(request: Request, error: Exception) -> Response:
    reason = f"The system grants this server no more threads or processes ({error}). Raise `ulimit -u`, TasksMax= of "
    response = await _answer_known(request, ExhaustedError(f"{reason}systemd or the limit on pids of the container."))
    if request_id := current_request_id():  # as below
        response.headers["x-request-id"] = request_id
    return response


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    if is_exhausted(error):  # middleware needs threads, too, so this is the outermost handler
        return await _answer_exhausted(request, error)
    error_id = uuid.uuid4().hex[:12]
    _log.error("Error %s in %s %r", error_id, request.method, request.url.path, exc_info=error)
    detail = f"Internal error. The server log has the details under {error_id}."
    response = answer_error(request.url.path, 500, detail, error_id=error_id)
    if request_id := current_request_id():  # this answer does not pass through `RequestTelemetry`
        response.headers["x-request-id"] = request_id
    return response
