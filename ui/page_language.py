"""Gives every request the language of the person who asks, and every page its `lang`, which Gradio's template fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.language import ENGLISH, choose_language, current_language, speaking

_HTML = b'lang="en"'


class LanguageOfRequest:
    """Before all routes, since the login page is none of Gradio's."""

    def __init__(self, app: ASGIApp, *, default: str) -> None:
        self._app = app
        self._default = default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        language = choose_language(Headers(scope=scope), self._default)
        scope.setdefault("state", {})["language"] = language
        with speaking(language):
            await self._app(scope, receive, send)


def language_of(request: Any) -> str:
    """For tasks of the queue, which inherit nothing from the request."""
    found = getattr(request, "request", request)  # Gradio wraps Starlette's
    state = found.scope.get("state", {}) if isinstance(found, HTTPConnection) else {}
    return str(state.get("language", ENGLISH))


class LanguageOfDocument:
    """Inside whatever compresses. A page leaves Gradio in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        language = current_language()
        if scope["type"] != "http" or language == ENGLISH:
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_named(message: Message) -> None:
            nonlocal start
            is_page = message.get("type") == "http.response.start" and Headers(raw=message["headers"]).get(
                "content-type", ""
            ).startswith("text/html")
            if is_page:
                start = message
                return
            if start is not None:
                before = message["body"]
                body = before.replace(_HTML, f'lang="{language}"'.encode(), 1)
                headers = MutableHeaders(scope=start)
                if "content-length" in headers:
                    headers["content-length"] = str(int(headers["content-length"]) + len(body) - len(before))
                await send(start)
                start, message = None, {**message, "body": body}
            await send(message)

        await self._app(scope, receive, send_named)


class ConfigByLanguage(Mapping[str, Any]):
    """What Gradio sends of a site, in the language of the request: the same components with other texts."""

    def __init__(self, english: dict[str, Any], components: Mapping[str, list[Any]]) -> None:
        self._configs = {language: {**english, "components": each} for language, each in components.items()}
        self._configs[ENGLISH] = english

    @property
    def _config(self) -> dict[str, Any]:
        return self._configs.get(current_language(), self._configs[ENGLISH])

    def __getitem__(self, key: str) -> Any:
        return self._config[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._config)

    def __len__(self) -> int:
        return len(self._config)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return deepcopy(self._config, memo)
