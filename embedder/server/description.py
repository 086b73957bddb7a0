"""Completes the OpenAPI description of a server: authentication and error responses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from embedder.server.client_errors import TeiError, error_model, is_client_path

SERVERS = [{"url": "/", "description": "this server"}]
LICENSE = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "`Authorization: Bearer KEY`, where the server requires a key.",
}
_ERRORS = {
    400: "Invalid input. The message names the field and the remedy.",
    401: "The key is missing or wrong.",
    404: "There is no such path or model.",
    413: "The request is too large.",
    429: "Too many requests. Retry after the seconds in `Retry-After`.",
    500: "The computation failed.",
    503: "The model does not respond. Retry after the seconds in `Retry-After`.",
}


def operation_id(route: APIRoute) -> str:
    """The name of the route's function, such as `add_document`. Generated clients name their functions after it."""
    return route.name


def complete_description(application: FastAPI, complete: Callable[[dict[str, Any]], None]) -> None:
    """Makes `application.openapi()` return the description as changed by `complete`. It is built at the first call."""
    plain: Callable[[], dict[str, Any]] = application.openapi
    building = threading.Lock()  # /docs is served in another thread, and must not read a half-finished description

    def completed() -> dict[str, Any]:
        with building:
            if application.openapi_schema is None:
                complete(plain())
            return plain()

    application.openapi = completed  # type: ignore[method-assign]


def describe_errors(schema: dict[str, Any]) -> None:
    """Describes the errors of paths that clients of OpenAI, Cohere or TEI call, instead of FastAPI's own."""
    shapes = schema["components"]["schemas"]
    for path, operations in schema["paths"].items():
        if not is_client_path(path):
            continue
        model = error_model(path)
        shown = model.model_json_schema(ref_template="#/components/schemas/{model}")
        shapes |= shown.pop("$defs", {}) | {model.__name__: shown}
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
        invalid = 422 if model is TeiError else 400
        for operation in operations.values():
            kept = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
            errors = {
                str(invalid if status == 400 else status): {"description": text, "content": content}
                for status, text in _ERRORS.items()
            }
            operation["responses"] = kept | errors


class ProblemShape(BaseModel):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str | None


def describe_problems(schema: dict[str, Any], *, folder: str, is_open: Callable[[str], bool]) -> None:
    """Replaces FastAPI's own validation errors below `folder` by the problem details that the routes answer with.

    is_open: whether a path accepts requests without a key.
    """
    shapes = schema["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        shapes.pop(unused, None)
    shapes["Problem"] = ProblemShape.model_json_schema() | {"title": "Problem"}
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    errors = {
        str(422 if status == 400 else status): {"description": text, "content": content}
        for status, text in _ERRORS.items()
        if status != 404
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if path.startswith(folder):
                operation["responses"] = operation["responses"] | errors
            elif not is_client_path(path) and not is_open(path):
                operation["responses"]["401"] = errors["401"]


def describe_keys(
    schema: dict[str, Any],
    schemes: Mapping[str, Mapping[str, Any]],
    *,
    is_open: Callable[[str], bool],
    required: bool,
) -> None:
    """Adds the ways to authenticate.

    is_open: whether a path accepts requests without a key. required: whether the other paths reject them.
    """
    schema["components"]["securitySchemes"] = dict(schemes)
    ways: list[dict[str, list[str]]] = [{name: []} for name in schemes]
    schema["security"] = ways if required else [*ways, {}]
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if is_open(path):
                operation["security"] = []
