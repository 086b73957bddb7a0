"""The about page: introduction, help, model, collections and health."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ui.about_handlers import AboutHandlers
from ui.contract import PageParts
from ui.handler_inputs import as_handler, as_stream_handler
from ui.language import _
from ui.render.about import (
    render_card,
    render_collections_heading,
    render_faithfulness,
    render_health,
    render_help,
    render_introduction,
    render_model,
    render_versions,
)

_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def build_about_page(site: gr.Blocks, parts: PageParts) -> None:
    """Draws the page in the current Blocks."""
    about = parts.about
    handlers = AboutHandlers(
        catalog=parts.catalog, checks=parts.checks, fingerprint=about.model.fingerprint if about.model else ""
    )
    _draw(render_introduction(), "introduction")
    with gr.Row(elem_classes="about", equal_height=False):
        with gr.Column(scale=5, min_width=320):
            _draw(render_help(), "help")
            _draw(render_faithfulness(about), "faithfulness")
            _draw(render_card(about), "card")
        with gr.Column(scale=3, min_width=280):
            health = _draw(render_health(dict.fromkeys(parts.checks)), "health")
            again = gr.Button(_("Check again"), size="sm", elem_id="ask-again", elem_classes="about-button")
            _draw(render_model(about), "model")
            _draw(render_collections_heading(), "collections-heading")
            collections = _draw("", "collections")
            _draw(render_versions(about), "versions")

    ask = {"fn": as_stream_handler(handlers.health, outputs=1), "outputs": health, "concurrency_limit": 2, **_QUIET}
    again.click(**ask, concurrency_id="health")
    site.load(**ask, concurrency_id="health")
    site.load(as_handler(handlers.collections, outputs=1), outputs=collections, **_QUIET)


def _draw(html: str, elem_id: str) -> gr.HTML:
    return gr.HTML(html, elem_id=elem_id, js_on_load=None)
