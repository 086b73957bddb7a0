"""Builds the pages and mounts them into the API. Mount them last: routes that are added later answer 404."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gradio as gr
import gradio.blocks
from fastapi import FastAPI
from gradio.context import Context
from starlette.middleware import Middleware
from starlette.routing import Mount

from ui.about_page import build_about_page
from ui.compare_page import build_compare_page
from ui.contract import ABOUT, COMPARE, DOCUMENTS, EVALUATE, SAVED, SEARCH, AboutInfo, Example, PageLink, PageParts
from ui.documents_page import build_documents_page
from ui.evaluate_page import build_evaluate_page
from ui.fair_queue import FairQueue
from ui.gradio_guard import GradioGuard, QueueSessions
from ui.inputs import check_inputs
from ui.language import AUTOMATIC, ENGLISH, languages, speaking
from ui.page_language import ConfigByLanguage, LanguageOfRequest, Translated, name_language, translate_problem
from ui.render.frame import render_footer, render_header
from ui.saved_page import build_saved_page
from ui.search_page import build_search_page
from ui.session_memory import bound_memory
from ui.theme import SCRIPTS, STYLESHEETS, build_theme

__all__ = ["AboutInfo", "Example", "PageParts", "build_pages", "mount_pages"]

MAX_WAITING = 64


@dataclass(frozen=True, slots=True)
class Site:
    """The pages in English, and the texts of their components in the other languages."""

    english: gr.Blocks
    components: Mapping[str, list[Any]]


# In the order of the header. A builder adds its page to the current Blocks and connects its handlers.
PAGES: Sequence[tuple[PageLink, Callable[[gr.Blocks, PageParts], None]]] = (
    (SEARCH, build_search_page),
    (COMPARE, build_compare_page),
    (DOCUMENTS, build_documents_page),
    (SAVED, build_saved_page),
    (EVALUATE, build_evaluate_page),
    (ABOUT, build_about_page),
)


def build_pages(parts: PageParts) -> Site:
    """Builds all pages once per language. Component ids are equal in all languages, so one queue serves them all."""
    first = Context.id
    english = _build_pages(parts)
    components = {}
    for language in languages():
        if language != ENGLISH:
            Context.id = first
            with speaking(language):
                components[language] = _build_pages(parts).get_config_file()["components"]
    return Site(english, components)


def _build_pages(parts: PageParts) -> gr.Blocks:
    with _one_application():
        site = gr.Blocks(title="gircse-search", analytics_enabled=False)
        for link, build in PAGES:
            if link == SEARCH:
                with site:
                    _frame(site, parts, link, build)
            else:
                with site.route(link.name, link.path, show_in_navbar=False):
                    _frame(site, parts, link, build)
        site.queue(default_concurrency_limit=4, max_size=MAX_WAITING, api_open=False)
    _disable_statistics(site)
    return site


@contextmanager
def _one_application() -> Iterator[None]:
    """Makes Gradio create its internal application only once.

    Gradio 6 creates an application with 96 routes for the queue and again after each page (0.1 s of processor time
    each), but serves none of them: `mount_gradio_app` creates its own.
    """
    made: list[Any] = []

    class Once(gradio.blocks.App):
        @staticmethod
        def create_app(*args: Any, **options: Any) -> Any:
            if not made:
                made.append(every_time.create_app(*args, **options))
            return made[0]

    every_time = gradio.blocks.App
    gradio.blocks.App = Once  # type: ignore[misc]
    try:
        yield
    finally:
        gradio.blocks.App = every_time  # type: ignore[misc]


def _disable_statistics(site: gr.Blocks) -> None:
    """Turns off Gradio's request statistics: 6.31 recomputes them with pandas after every request.

    Gradio configures them by environment variables, so this changes the values that it read from there.
    """
    site._queue.ANALYTICS_MAX_EVENTS = 1
    site._queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize


def mount_pages(api: FastAPI, pages: Site, *, language: str = AUTOMATIC) -> FastAPI:
    """Serves the pages below `/`, after all routes of the API. The pages load nothing from other machines."""
    site = pages.english
    sessions = QueueSessions()
    bound_memory(site)
    check_inputs(site, sessions=sessions)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="SSR mode is not supported")  # Gradio warns although we turn SSR off
        _mount(api, site)
    site.config = ConfigByLanguage(dict(site.config), pages.components)  # type: ignore[assignment]
    mounted = api.routes[-1]
    assert isinstance(mounted, Mount)
    assert isinstance(mounted.app, FastAPI)
    mounted.app.user_middleware.append(Middleware(Translated, media_type="text/html", rewrite=name_language))
    queue = FairQueue(lambda: site._queue, owner_of=sessions.owner_of)
    mounted.app.add_middleware(GradioGuard, pages=[link.path for link, _ in PAGES], sessions=sessions, queue=queue)
    api.add_middleware(Translated, media_type="application/problem+json", rewrite=translate_problem)
    api.add_middleware(LanguageOfRequest, default=language)
    return api


def _mount(api: FastAPI, site: gr.Blocks) -> None:
    gr.mount_gradio_app(
        api,
        site,
        path="/",
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=build_theme(),
        css_paths=list(STYLESHEETS),
        head="".join(f"<script>{each.read_text(encoding='utf-8')}</script>" for each in SCRIPTS),
    )


TITLED = (EVALUATE, ABOUT)  # their pages show a heading


def _frame(site: gr.Blocks, parts: PageParts, link: PageLink, build: Callable[[gr.Blocks, PageParts], None]) -> None:
    gr.HTML(
        render_header([each for each, _ in PAGES], link, has_logins=parts.has_logins, has_title=link in TITLED),
        js_on_load=None,
    )
    with gr.Column(elem_id="content"):
        build(site, parts)
    gr.HTML(render_footer(parts.about), js_on_load=None)
