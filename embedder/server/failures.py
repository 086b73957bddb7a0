"""Formats errors over HTTP: as the clients of a path expect them, or as problem details (RFC 9457)."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from embedder.engine.errors import InvalidRequestError, RefusedError, TooLargeError
from embedder.server.client_errors import client_error, is_client_path, place_in_body, unreadable_json

GONE = 499  # nginx's status for a client that closed the connection
_MOST_FAULTS = 5

_log = logging.getLogger(__name__)


class ClientGoneError(Exception):
    """The client closed the connection."""


def failure(error: RefusedError, path: str) -> Response:
    """The response to a request for `path`, in the format of that path's clients."""
    if is_client_path(path):
        response = client_error(path, error.status, str(error), code=error.code, param=error.param)
    else:
        response = _problem(error)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if error.status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _problem(error: RefusedError) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": str(error),
        "code": error.code,
    }
    # ASCII escapes: a message may quote a lone surrogate, which UTF-8 cannot encode.
    return Response(json.dumps(body), status_code=error.status, media_type="application/problem+json")


class FailingRoute(APIRoute):
    """Formats errors itself, so that they look the same in every application that includes the routes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_or_fail(request: Request) -> Response:
            try:
                return await handle(request)
            except ClientGoneError:
                return Response(status_code=GONE)
            except RefusedError as error:
                return failure(error, request.url.path)
            except RequestValidationError as error:
                return failure(_invalid(error, request), request.url.path)
            except HTTPException as error:
                return failure(refused_by(error), request.url.path)
            except Exception as error:  # noqa: BLE001 - the outermost handler of these routes
                error_id = uuid.uuid4().hex[:12]
                _log.error("Error %s in %s", error_id, request.url.path, exc_info=error)
                message = f"Internal error. The log has details under {error_id}."
                return failure(RefusedError(message), request.url.path)

        return handle_or_fail


def _invalid(error: RequestValidationError, request: Request) -> RefusedError:
    kind = request.headers.get("content-type", "")
    if "json" not in kind:
        return InvalidRequestError(
            f"The body is of type {kind[:100]!r}. Send JSON with Content-Type: application/json."
        )
    faults = error.errors()
    lines = [_error_line(fault, request.url.path) for fault in faults[:_MOST_FAULTS]]
    more = [f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
    place = next((part for fault in faults for part in fault["loc"][1:2] if isinstance(part, str)), None)
    return InvalidRequestError("; ".join(lines + more) or "Invalid request.", param=place)


def _error_line(fault: dict[str, Any], path: str) -> str:
    if unreadable := unreadable_json(fault):
        return unreadable
    place = place_in_body(fault["loc"], path)
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def refused_by(error: HTTPException) -> RefusedError:
    if isinstance(error.__cause__, RefusedError):  # raised while reading the body
        return error.__cause__
    if isinstance(error.__cause__, UnicodeDecodeError):
        error_of_ours: RefusedError = InvalidRequestError(f"The body is not UTF-8 ({error.__cause__}).")
    elif error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        error_of_ours = TooLargeError(str(error.detail))
    else:
        error_of_ours = InvalidRequestError(str(error.detail) or HTTPStatus(error.status_code).phrase)
        error_of_ours.status = error.status_code
    return error_of_ours
