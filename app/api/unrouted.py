"""Answers to paths and methods that no route of the API takes. Otherwise the pages, mounted at `/`, would answer."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from app.api.problems import answer_error
from embedder.server.client_errors import is_client_path
from embedder.server.unknown_paths import methods_at, unknown_path, wrong_method


class Unrouted(BaseRoute):
    """Takes every request for a path of the API. Add it after all routes."""

    def __init__(self, api: FastAPI) -> None:
        self._api = api

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_api = scope["type"] == "http" and (
            is_client_path(scope["path"]) or scope["path"] == "/api" or scope["path"].startswith("/api/")
        )
        return (Match.FULL if is_api else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer_unrouted(self._api, Request(scope))(scope, receive, send)


def answer_unrouted(api: FastAPI, request: Request) -> Response:
    method, path, paths = request.method, request.url.path, api.openapi()["paths"]
    allowed = methods_at(path, paths)
    if not allowed:
        message = unknown_path(method, path, paths)
        return answer_error(path, HTTPStatus.NOT_FOUND, message, code="unknown_url")
    response = answer_error(path, HTTPStatus.METHOD_NOT_ALLOWED, wrong_method(method, path, allowed))
    response.headers["Allow"] = ", ".join(allowed)
    return response
