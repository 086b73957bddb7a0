"""The answer panel of the search page; empty until somebody asks for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from ui.answer_handlers import AnswerHandlers
from ui.contract import PageParts
from ui.handler_inputs import event_data
from ui.streams import skipping_none

PANEL_SCRIPT = "gircse.listen(element, trigger, ['open', 'ask']); gircse.listenForms(element, trigger, 'ask')"
_STREAM: dict[str, Any] = {
    "api_visibility": "private",
    "show_progress": "hidden",
    "concurrency_limit": 4,
    "concurrency_id": "answer",
    "trigger_mode": "always_last",
}


def build_answer_panel() -> gr.HTML:
    """Adds the empty panel to the current Blocks. The next search hides it again (page.js)."""
    return gr.HTML("", elem_id="cited-answer", js_on_load=PANEL_SCRIPT)


def connect_answer_panel(panel: gr.HTML, parts: PageParts, *, passages: gr.HTML, asked: Sequence[Any]) -> None:
    """`passages` contains the answer button; `asked` are the fields for query, collection and choices."""
    handlers = AnswerHandlers(answers=parts.answers)
    show = "(...values) => { gircse.showAnswer(); return values; }"

    def ask(collection: object, choices: object, event: gr.EventData) -> Any:
        data = event_data(event)
        yield from skipping_none(lambda: handlers.ask(collection, choices, data), outputs=1)()

    passages.answer(skipping_none(handlers.answer, outputs=1), inputs=list(asked), outputs=panel, js=show, **_STREAM)
    panel.ask(ask, inputs=list(asked[1:]), outputs=panel, **_STREAM)
