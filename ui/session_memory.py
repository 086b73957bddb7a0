"""Bounds what Gradio keeps in memory for the sessions of pages, whose ids and number the clients choose."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ui.inputs import REFUSAL
from ui.language import _

KEPT_STATES = 256  # sessions whose changed components are kept; the pages need none of them later
KEPT_EVENT_IDS = 10_000  # sessions
MAX_UNREAD = 500  # messages of one session: a page reads them as they come


def bound_memory(site: gr.Blocks) -> None:
    """Call it before the site is mounted and after its queue is set up.

    By default Gradio keeps 10,000 states, each with a copy of the configuration of all pages (0.4 MB) and the last
    values of their fields, for links to a state, which these pages do not have. It also keeps all results that nobody
    reads.
    """
    site.state_session_capacity = KEPT_STATES
    process, queue = site.process_api, site._queue
    push = queue.push

    async def process_and_forget(block_fn: Any, inputs: list[Any], state: Any = None, **options: Any) -> dict[str, Any]:
        try:
            return await process(block_fn, inputs, state=state, **options)
        finally:
            if state is not None:
                state.config_values.clear()

    async def push_if_read(body: Any, request: Any, username: str | None) -> Any:
        unread = queue.pending_messages_per_session.get(body.session_hash)
        if unread is not None and unread.qsize() > MAX_UNREAD:
            return False, _(REFUSAL), "error"
        pushed = await push(body, request, username)
        event_ids = queue.pending_event_ids_session
        while len(event_ids) > KEPT_EVENT_IDS:
            del event_ids[next(iter(event_ids))]
        return pushed

    site.process_api = process_and_forget  # type: ignore[method-assign, assignment]
    queue.push = push_if_read  # type: ignore[method-assign]
