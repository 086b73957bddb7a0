"""Sets the language of every request, and the `lang` attribute that Gradio's template hard-codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.core_messages import translate_message
from ui.language import ENGLISH, choose_language, current_language, speaking

_HTML = b'lang="en"'


class LanguageOfRequest:
    """ASGI middleware for all routes, because the login page is not part of Gradio."""

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
    """The language of a request, for queue tasks, which do not inherit its context."""
    found = getattr(request, "request", request)  # Gradio wraps Starlette's
    state = found.scope.get("state", {}) if isinstance(found, HTTPConnection) else {}
    return str(state.get("language", ENGLISH))


class Translated:
    """Rewrites responses of one media type if the language is not English. Install it inside the compression
    middleware: it expects the response body in one piece."""

    def __init__(self, app: ASGIApp, *, media_type: str, rewrite: Callable[[bytes], bytes]) -> None:
        self._app = app
        self._media_type = media_type
        self._rewrite = rewrite

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or current_language() == ENGLISH:
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_translated(message: Message) -> None:
            nonlocal start
            if message.get("type") == "http.response.start" and self._is_meant(Headers(raw=message["headers"])):
                start = message
                return
            if start is not None:
                body = message.get("body", b"")
                body = self._rewrite(body) if body and not message.get("more_body") else body
                headers = MutableHeaders(scope=start)
                if "content-length" in headers:
                    headers["content-length"] = str(len(body))
                await send(start)
                start, message = None, {**message, "body": body}
            await send(message)

        await self._app(scope, receive, send_translated)

    def _is_meant(self, headers: Headers) -> bool:
        return headers.get("content-type", "").startswith(self._media_type) and "content-encoding" not in headers


def name_language(page: bytes) -> bytes:
    """Sets the `lang` attribute, which Gradio's template hard-codes."""
    return page.replace(_HTML, f'lang="{current_language()}"'.encode(), 1)


def translate_problem(body: bytes) -> bytes:
    """Translates the detail of an API error: page scripts display it. Programs rarely request a language."""
    problem = json.loads(body)
    return json.dumps(problem | {"detail": translate_message(problem["detail"])}).encode()


class ConfigByLanguage(Mapping[str, Any]):
    """Gradio's site configuration in the language of the request: same components, translated texts."""

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
