"""A field for a number from 1."""

from __future__ import annotations

import gradio as gr


def count_slider(most: int, value: int, label: str, elem_id: str) -> gr.Slider:
    """1 to `most`; hidden where that is 1, as the steps of a model without soft tokens: there is nothing to choose."""
    least_most = max(most, 2)  # gradio refuses a slider of one value
    return gr.Slider(
        1, least_most, value=value, step=1, label=label, min_width=220, buttons=[], elem_id=elem_id, visible=most > 1
    )
