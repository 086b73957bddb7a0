"""Colours and fonts of the pages. Only system fonts: a web font would load from another machine."""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from gradio.themes.utils import colors, sizes

ASSETS = Path(__file__).parent / "assets"
STYLESHEETS = tuple(
    ASSETS / f"{name}.css"
    for name in ("frame", "search", "compare", "documents", "pages", "saved", "evaluate", "about")
)
SCRIPTS = tuple(
    ASSETS / f"{name}.js" for name in ("page", "collection", "pages")
)  # the first defines functions that the others use

SANS = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'


def build_theme() -> gr.themes.Base:
    """The values refer to CSS variables, so light and dark colours are defined in one place."""
    theme = gr.themes.Base(
        primary_hue=colors.teal,
        neutral_hue=colors.stone,
        text_size=sizes.text_md,
        radius_size=sizes.radius_md,
        # gr.themes.Font, because Gradio looks for a font file for plain strings.
        font=gr.themes.Font("sans-serif"),
        font_mono=gr.themes.Font("monospace"),
    )
    theme.font, theme.font_mono = SANS, MONO
    both = {
        "body_background_fill": "var(--page)",
        "body_text_color": "var(--ink)",
        "body_text_color_subdued": "var(--ink-soft)",
        "background_fill_primary": "var(--panel)",
        "background_fill_secondary": "var(--page)",
        "block_background_fill": "transparent",
        "block_border_width": "0px",
        "block_label_text_color": "var(--ink-soft)",
        "block_title_text_color": "var(--ink)",
        "block_info_text_color": "var(--ink-soft)",
        "border_color_primary": "var(--line)",
        "border_color_accent": "var(--accent)",
        "link_text_color": "var(--accent)",
        "input_background_fill": "var(--panel)",
        "input_border_color": "var(--line-strong)",
        "input_border_color_focus": "var(--accent)",
        "input_placeholder_color": "var(--ink-soft)",
        "slider_color": "var(--accent)",
        "button_primary_background_fill": "var(--accent)",
        "button_primary_background_fill_hover": "var(--accent-strong)",
        "button_primary_border_color": "var(--accent)",
        "button_primary_text_color": "var(--on-accent)",
        "button_secondary_background_fill": "var(--panel)",
        "button_secondary_background_fill_hover": "var(--tint)",
        "button_secondary_border_color": "var(--line-strong)",
        "button_secondary_text_color": "var(--ink)",
    }
    dark = {f"{name}_dark": value for name, value in both.items() if name != "block_border_width"}
    return theme.set(
        color_accent="var(--accent)",
        block_padding="0px",
        input_border_width="1px",
        block_border_width_dark="0px",
        **both,
        **dark,
    )
