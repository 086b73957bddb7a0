"""Errors in the formats that clients of OpenAI, Cohere and text-embeddings-inference parse, chosen by the path.

Without torch and without the engine: the application's API answers with the same formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

TEI_RERANK_PATH, TEI_EMBED_PATH = "/rerank", "/embed"
_TEI_PATHS = (TEI_RERANK_PATH, TEI_EMBED_PATH)
CLIENT_FOLDERS = ("/v1", "/v2")
COHERE, TEI = "Cohere", "TEI"  # the formats that `TEI_RERANK_PATH` takes
_CODES: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "invalid_api_key",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_supported",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
    HTTPStatus.SERVICE_UNAVAILABLE: "unavailable",
}
_TEI_TYPES: Mapping[int, str] = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "validation",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "validation",
    HTTPStatus.TOO_MANY_REQUESTS: "overloaded",
    HTTPStatus.SERVICE_UNAVAILABLE: "unhealthy",
}


class OpenAIErrorBody(BaseModel):
    message: str
    type: str = Field(description="invalid_request_error, rate_limit_error or server_error.")
    param: str | None = Field(description="The field that the error is about.")
    code: str | None


class OpenAIError(BaseModel):
    error: OpenAIErrorBody


class CohereError(OpenAIError):
    """An error in Cohere's format (`message`) and in OpenAI's (`error`): vLLM, whose clients expect OpenAI's, has the
    same path."""

    message: str


class TeiError(BaseModel):
    error: str
    error_type: str = Field(description="validation, overloaded, unhealthy or backend.")


def is_client_path(path: str) -> bool:
    """Whether clients of OpenAI, Cohere or TEI call this path, and expect their error format."""
    return path in _TEI_PATHS or any(path == folder or path.startswith(f"{folder}/") for folder in CLIENT_FOLDERS)


def place_in_body(loc: Sequence[int | str], path: str) -> str:
    """The place of a validation error, such as `documents.0`; `body` if it is the whole body.

    loc: pydantic's, which at `TEI_RERANK_PATH` also names the format.
    """
    names = loc[2:] if path == TEI_RERANK_PATH and loc[1:2] and loc[1] in (COHERE, TEI) else loc[1:]
    return ".".join(map(str, names or loc[:1]))


def unreadable_json(fault: Mapping[str, Any]) -> str:
    """Why a body is no JSON, if this error of validation is of that kind; otherwise empty."""
    position = next(reversed(fault["loc"]), None)
    if fault.get("type") != "json_invalid" or not isinstance(position, int):  # pydantic's own message says where
        return ""
    reason = str(fault.get("ctx", {}).get("error", "")).rstrip(".")
    return f"The body is not JSON: {reason or 'invalid'} at character {position}."


def client_error(
    path: str, status: int, message: str, *, code: str | None = None, param: str | None = None
) -> Response:
    """The error response for a path of `is_client_path`. `code` and `param` are OpenAI's; by default the status decides
    the code."""
    shape: Callable[[int, str, str | None, str | None], Mapping[str, object]] = _openai
    if path in _TEI_PATHS:
        shape = _tei
    elif path.startswith("/v2"):
        shape = _cohere
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):  # each API has one status for invalid input
        status = int(HTTPStatus.UNPROCESSABLE_ENTITY if path in _TEI_PATHS else HTTPStatus.BAD_REQUEST)
    body = shape(status, message, code or _CODES.get(status), param)
    # ASCII escapes: a message may quote a lone surrogate, which UTF-8 cannot encode.
    return Response(json.dumps(body), status, media_type="application/json")


def error_model(path: str) -> type[BaseModel]:
    """The shape of `client_error` for this path."""
    if path in _TEI_PATHS:
        return TeiError
    return CohereError if path.startswith("/v2") else OpenAIError


def _openai(status: int, message: str, code: str | None, param: str | None) -> Mapping[str, object]:
    kind = "invalid_request_error"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        kind = "rate_limit_error"
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _cohere(status: int, message: str, code: str | None, param: str | None) -> Mapping[str, object]:
    """The body of a `CohereError`."""
    return {"message": message, **_openai(status, message, code, param)}


def _tei(status: int, message: str, code: str | None, param: str | None) -> Mapping[str, object]:
    known = _TEI_TYPES.get(status)
    return {
        "error": message,
        "error_type": known or ("backend" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "validation"),
    }
