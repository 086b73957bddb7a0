"""A slider for counts."""

from __future__ import annotations

import gradio as gr


def count_slider(most: int, value: int, label: str, elem_id: str) -> gr.Slider:
    """A slider from 1 to `most`. Hidden if `most` is 1, as for a model without refinement steps."""
    least_most = max(most, 2)  # Gradio rejects a slider with a single value
    return gr.Slider(
        1, least_most, value=value, step=1, label=label, min_width=220, buttons=[], elem_id=elem_id, visible=most > 1
    )
