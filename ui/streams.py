"""Handlers that answer bit by bit, as Gradio runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from ui.handler_inputs import as_stream_handler


def skipping_none(
    handler: Callable[..., Iterator[tuple[Any, ...]]], *, outputs: int
) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """Errors become a notice; a part of an answer that is None leaves what was there.

    A handler must answer at least once, if only with Nones: Gradio empties the outputs of one that never does.
    """

    def answer(*values: Any) -> Iterator[tuple[Any, ...]]:
        for views in as_stream_handler(handler, outputs=outputs)(*values):
            yield tuple(gr.skip() if view is None else view for view in views)

    return answer
