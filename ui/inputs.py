"""Rejects malformed events before Gradio's queue handles them; handlers validate the values.

Otherwise, Gradio would copy any server file, or fetch any address, that a field value declares as a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import gradio as gr
from starlette.requests import HTTPConnection

from app.types.access import Principal, acting_as
from app.types.patience import answering
from ui.gradio_guard import QueueSessions
from ui.language import _, later, speaking
from ui.page_language import language_of

REFUSAL = later("Invalid request. Reload the page.")


def check_inputs(site: gr.Blocks, *, sessions: QueueSessions) -> None:
    """Installs the checks in a site whose queue is set up. Fields pass raw values to handlers, which report errors on
    the page; Gradio would drop invalid values silently or only log them."""
    for each in site.fns.values():
        each.preprocess = False
    process, push = site.process_api, site._queue.push

    async def process_checked(block_fn: Any, inputs: list[Any], *rest: Any, **options: Any) -> dict[str, Any]:
        with speaking(language_of(options.get("request"))):
            return await process_known(block_fn, inputs, *rest, **options)

    async def process_known(block_fn: Any, inputs: list[Any], *rest: Any, **options: Any) -> dict[str, Any]:
        _check(site.fns[block_fn] if isinstance(block_fn, int) else block_fn, inputs, options.get("event_data"))
        # Queue tasks do not inherit the request's context, such as the authenticated principal.
        principal = _principal_of(options.get("request"))
        with answering(), acting_as(principal) if principal is not None else nullcontext():
            return await process(block_fn, inputs, *rest, **options)

    async def push_known(body: Any, request: Any, username: str | None) -> Any:
        if body.fn_index is not None and body.fn_index not in site.fns:
            return False, _(REFUSAL), "error"
        if not sessions.belongs_to(str(body.session_hash), _principal_of(request)):
            return False, _(REFUSAL), "error"
        return await push(body, request, username)

    site.process_api = process_checked  # type: ignore[method-assign]
    site._queue.push = push_known  # type: ignore[method-assign]


def _principal_of(request: Any) -> Principal | None:
    """None if not authenticated; authorized services then deny access."""
    found = getattr(request, "request", request)  # Gradio wraps Starlette's
    return found.scope.get("state", {}).get("principal") if isinstance(found, HTTPConnection) else None


def _check(handler: Any, inputs: list[Any], event: gr.EventData | None) -> None:
    is_readable = handler.fn is not None and len(inputs) >= len(handler.inputs)
    # No field of these pages sends objects; only file values are objects.
    is_readable = is_readable and not any(isinstance(each, dict) for each in _parts(inputs[: len(handler.inputs)]))
    parts = [*_parts(inputs), *_parts(event._data if event is not None else None)]
    if not is_readable or any(isinstance(each, str) and not _is_unicode(each) for each in parts):
        raise gr.Error(_(REFUSAL), print_exception=False)


def _parts(value: object) -> Iterator[object]:
    """The value and all nested values."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple)):
            waiting += part


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogates, which cannot be encoded in a response."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
