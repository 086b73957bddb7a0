"""The page: its frame, its tabs, and how it is hung into the API. Mount it last: routes added after it answer 404."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr
from fastapi import FastAPI

from app.errors import GircseError
from app.ports import Catalog
from ui import render
from ui.contract import AboutInfo, AddFiles, Example, Preset, SearchService
from ui.documents_page import DocumentHandlers, build_documents_tab
from ui.search_page import SearchHandlers, build_search_tab
from ui.theme import STYLESHEET, build_theme
from ui.uploads import MAX_FILE_BYTES

__all__ = ["AboutInfo", "AddFiles", "Example", "Preset", "SearchService", "build_page", "mount_page"]

UPLOAD_LIFETIME_S = 3600
MAX_WAITING = 64


def build_page(
    *,
    search: SearchService,
    catalog: Catalog,
    presets: Sequence[Preset],
    default_steps: int,
    max_steps: int,
    about: AboutInfo,
    examples: Sequence[Example] = (),
    add_files: AddFiles | None = None,
) -> gr.Blocks:
    """The whole page, not yet served. Without `add_files` documents can be seen and deleted, but not added."""
    search_handlers = SearchHandlers(search_service=search, catalog=catalog, presets=presets, max_steps=max_steps)
    document_handlers = DocumentHandlers(catalog=catalog, add_files=add_files)
    collections = [each.name for each in catalog.collections()]
    page = gr.Blocks(
        title="gircse-search", analytics_enabled=False, delete_cache=(UPLOAD_LIFETIME_S, UPLOAD_LIFETIME_S)
    )
    with page:
        gr.HTML(render.render_header(), js_on_load=None)
        with gr.Tabs():
            with gr.Tab("Search", id="search"):
                searched = build_search_tab(
                    search_handlers, default_steps=default_steps, examples=examples, collections=collections
                )
            with gr.Tab("Documents", id="documents") as documents_tab:
                listed = build_documents_tab(document_handlers, collections=collections, tab=documents_tab)
        gr.HTML(render.render_footer(about), js_on_load=None)
        page.load(
            lambda *chosen: _current_collections(catalog, chosen),
            [searched, listed],
            [searched, listed],
            api_visibility="private",
            show_progress="hidden",
        )
    page.queue(default_concurrency_limit=4, max_size=MAX_WAITING, api_open=False)
    return page


def mount_page(api: FastAPI, page: gr.Blocks) -> FastAPI:
    """Serves the page at `/` of the API, after all of its routes. Nothing here asks another machine for anything."""
    return gr.mount_gradio_app(
        api,
        page,
        path="/",
        footer_links=[],
        run_history=False,
        show_error=False,
        max_file_size=MAX_FILE_BYTES,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=build_theme(),
        css_paths=[STYLESHEET],
    )


def _current_collections(catalog: Catalog, chosen: Sequence[object]) -> tuple[gr.Dropdown, ...]:
    """Collections made since the server started; a choice that still exists stays."""
    try:
        names = [each.name for each in catalog.collections()]
    except GircseError:  # the next search says what is wrong
        return tuple(gr.skip() for _ in chosen)
    first = names[0] if names else None
    return tuple(gr.Dropdown(choices=names, value=value if value in names else first) for value in chosen)
