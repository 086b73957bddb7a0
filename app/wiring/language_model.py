"""Streams answers from a server with OpenAI's chat API (Ollama, vLLM, llama.cpp, …).

The server is not trusted: it may be unavailable or slow, and its response may be endless, cut off or malformed.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

from app.errors import CutOffError, InputError, LanguageModelBusyError, LanguageModelUnavailableError
from app.settings import Settings
from app.types.answers import Message
from app.wiring.remote import client_options

MAX_BYTES = 4_000_000
MAX_CHARACTERS = 40_000
_MAX_LINE_BYTES = 256_000
_LOGGED_BYTES = 300
_CONNECT_S = 5.0
_PATH = "/chat/completions"
_TO_OPERATOR = "Tell the operator of this server; its log has the details."

_log = logging.getLogger(__name__)


def language_model_for(settings: Settings) -> ChatServer | None:
    """The language model of the settings, or None. Sends no request yet."""
    if settings.answer_url is None or settings.answer_model is None:
        return None
    key = settings.answer_api_key
    return ChatServer(
        settings.answer_url,
        model=settings.answer_model,
        api_key=None if key is None else key.get_secret_value(),
        timeout_s=settings.answer_timeout_s,
        wait_s=settings.answer_wait_s,
        max_tokens=settings.answer_tokens,
        at_once=settings.answers_at_once,
    )


class ChatServer:
    """A language model behind OpenAI's chat API. Implements `LanguageModel`."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        api_key: str | None = None,
        timeout_s: float = 120,
        wait_s: float = 60,
        max_tokens: int = 600,
        at_once: int = 2,
    ) -> None:
        address = url.rstrip("/").removesuffix(_PATH) + _PATH
        try:
            self._url = str(httpx.URL(address))
        except httpx.InvalidURL as error:
            raise InputError(f"GIRCSE_ANSWER_URL: {url!r} is not a URL ({error}).") from None
        self._model = model
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._max_tokens = max_tokens
        options = client_options("", api_key, timeout_s=wait_s)
        timeout = httpx.Timeout(min(wait_s, timeout_s), connect=_CONNECT_S)
        self._client = httpx.Client(**{**options, "timeout": timeout})
        self._slots = threading.BoundedSemaphore(at_once)

    @property
    def name(self) -> str:
        return self._model

    def close(self) -> None:
        self._client.close()

    def write(self, messages: Sequence[Message]) -> Iterator[str]:
        """Stream the answer. Occupies a slot until the iterator ends or is closed."""
        if not self._slots.acquire(blocking=False):
            raise LanguageModelBusyError("The language model is busy with other answers. Try again soon.")
        try:
            yield from self._write(messages)
        except httpx.TimeoutException:
            raise LanguageModelUnavailableError(
                f"The language model wrote nothing for {self._wait_s:g} s. Try again, or choose sentences of the "
                "documents instead."
            ) from None
        except httpx.HTTPError as error:
            _log.warning("GIRCSE_ANSWER_URL: %s: %s", type(error).__name__, error)
            raise LanguageModelUnavailableError(
                f"The language model does not respond ({type(error).__name__}). {_TO_OPERATOR}"
            ) from None
        finally:
            self._slots.release()

    def _write(self, messages: Sequence[Message]) -> Iterator[str]:
        body = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "stream": True,
            "temperature": 0,
            "max_tokens": self._max_tokens,
        }
        until = time.monotonic() + self._timeout_s
        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        with self._client.stream("POST", self._url, json=body, headers=headers) as answer:
            if answer.status_code != httpx.codes.OK:
                raise self._refusal(answer, until)
            if answer.headers.get("content-type", "").startswith("application/json"):
                yield _whole_text(b"".join(_bounded(answer.iter_raw(), until, self._timeout_s)))
                return
            yield from self._read_events(answer, until)

    def _read_events(self, answer: httpx.Response, until: float) -> Iterator[str]:
        count = 0
        has_ended = False
        for line in _lines(_bounded(answer.iter_raw(), until, self._timeout_s)):
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            piece, reason = _piece_of(data)
            if piece := piece[: MAX_CHARACTERS - count]:
                count += len(piece)
                yield piece
            if count == MAX_CHARACTERS:
                raise CutOffError(f"The language model wrote {MAX_CHARACTERS:,} characters and did not stop.")
            if reason == "length":
                raise CutOffError("The language model reached its maximum length.")
            has_ended = has_ended or reason is not None
        if not has_ended:
            if not count:
                raise _unreadable()
            raise CutOffError("The language model's server closed the connection too early.")

    def _refusal(self, answer: httpx.Response, until: float) -> LanguageModelUnavailableError:
        body = b""
        for part in _bounded(answer.iter_raw(), until, self._timeout_s):
            body += part
            if len(body) > _LOGGED_BYTES:
                break
        status = answer.status_code
        _log.warning("GIRCSE_ANSWER_URL answers %d: %r", status, body[:_LOGGED_BYTES])  # users do not see its text
        if status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
            return LanguageModelBusyError("The language model is overloaded. Try again in a minute.")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return LanguageModelUnavailableError(
                f"The language model's server rejects the API key of this server ({status}). {_TO_OPERATOR}"
            )
        if status == httpx.codes.NOT_FOUND:
            return LanguageModelUnavailableError(
                f"The language model's server does not have the model {self._model!r}, or the URL is wrong ({status}). "
                f"{_TO_OPERATOR}"
            )
        return LanguageModelUnavailableError(f"The language model's server failed ({status}). {_TO_OPERATOR}")


def _bounded(parts: Iterator[bytes], until: float, timeout_s: float) -> Iterator[bytes]:
    count = 0
    for part in parts:
        count += len(part)
        if count > MAX_BYTES:
            raise CutOffError(f"The language model's server sent more than {MAX_BYTES:,} bytes.")
        if time.monotonic() > until:
            raise CutOffError(f"The language model took longer than {timeout_s:g} s.")
        yield part


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise _unreadable()
        yield from lines
    if rest:
        yield rest


def _piece_of(data: bytes) -> tuple[str, str | None]:
    """The text of an event, and the finish reason if the model stopped."""
    event = _parsed(data)
    if "error" in event:
        _log.warning("GIRCSE_ANSWER_URL: %r", data[:_LOGGED_BYTES])
        raise LanguageModelUnavailableError(f"The language model's server failed while it wrote. {_TO_OPERATOR}")
    choice = _first_choice(event)
    if choice is None:  # a final event with usage counts has no choices
        return "", None
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, Mapping) else None
    reason = choice.get("finish_reason")
    return _text(text), reason if isinstance(reason, str) else None


def _whole_text(content: bytes) -> str:
    """The text of a response that is not streamed."""
    choice = _first_choice(_parsed(content)) or {}
    message = choice.get("message")
    text = _text(message.get("content") if isinstance(message, Mapping) else None)
    if not text:
        raise _unreadable()
    return text[:MAX_CHARACTERS]


def _parsed(data: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise _unreadable() from None
    if not isinstance(event, Mapping):
        raise _unreadable()
    return event


def _first_choice(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = event.get("choices")
    if not isinstance(choices, list):
        raise _unreadable()
    if choices and not isinstance(choices[0], Mapping):
        raise _unreadable()
    return choices[0] if choices else None


def _text(value: object) -> str:
    """`value` as text without lone surrogates, which UTF-8 cannot encode; "" if it is not a string."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _unreadable() -> LanguageModelUnavailableError:
    return LanguageModelUnavailableError(f"The response of the language model's server is malformed. {_TO_OPERATOR}")
