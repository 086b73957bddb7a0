"""Adapters for handlers that yield partial results to Gradio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from ui.handler_inputs import as_stream_handler


def skipping_none(
    handler: Callable[..., Iterator[tuple[Any, ...]]], *, outputs: int
) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """Shows errors as a notice. A None output leaves the component unchanged.

    A handler must yield at least once, even if only Nones; otherwise Gradio clears its outputs.
    """

    def answer(*values: Any) -> Iterator[tuple[Any, ...]]:
        for views in as_stream_handler(handler, outputs=outputs)(*values):
            yield tuple(gr.skip() if view is None else view for view in views)

    return answer
