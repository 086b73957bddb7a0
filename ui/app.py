"""The pages: their frame, their addresses, and how they are hung into the API. Mount them last: routes added after it
answer 404."""

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
from ui.gradio_guard import GradioGuard, QueueSessions
from ui.inputs import check_inputs
from ui.language import AUTOMATIC, ENGLISH, languages, speaking
from ui.page_language import ConfigByLanguage, LanguageOfRequest, Translated, name_language, translate_problem
from ui.render.frame import render_footer, render_header
from ui.saved_page import build_saved_page
from ui.search_page import build_search_page
from ui.theme import SCRIPTS, STYLESHEETS, build_theme

__all__ = ["AboutInfo", "Example", "PageParts", "build_pages", "mount_pages"]

MAX_WAITING = 64


@dataclass(frozen=True, slots=True)
class Site:
    """The pages in English, and their components in the other languages."""

    english: gr.Blocks
    components: Mapping[str, list[Any]]


# In the order of the header. A builder draws its page in the current Blocks and connects its handlers.
PAGES: Sequence[tuple[PageLink, Callable[[gr.Blocks, PageParts], None]]] = (
    (SEARCH, build_search_page),
    (COMPARE, build_compare_page),
    (DOCUMENTS, build_documents_page),
    (SAVED, build_saved_page),
    (EVALUATE, build_evaluate_page),
    (ABOUT, build_about_page),
)


def build_pages(parts: PageParts) -> Site:
    """All pages, not yet served, once for each language; with the same numbers, so that one queue serves all."""
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
    _keep_no_statistics(site)
    return site


@contextmanager
def _one_application() -> Iterator[None]:
    """Gradio 6 makes an application of 96 routes for the queue and anew at the end of each page, 0.1 s of processor
    time a piece, and serves none of them: `mount_gradio_app` makes its own. Here the first one stays.
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


def _keep_no_statistics(site: gr.Blocks) -> None:
    """Gradio 6.31 sums up the last 10,000 requests anew, with pandas, after each, for a page that is not served.

    Its settings for that are variables of the environment, which is not ours; these hold what was read from them.
    """
    site._queue.ANALYTICS_MAX_EVENTS = 1
    site._queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize


def mount_pages(api: FastAPI, pages: Site, *, language: str = AUTOMATIC) -> FastAPI:
    """Serves the pages from `/` of the API on, after all of its routes. Nothing here asks another machine."""
    site = pages.english
    sessions = QueueSessions()
    check_inputs(site, sessions=sessions)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="SSR mode is not supported")  # it is told not to use it, and says so
        _mount(api, site)
    site.config = ConfigByLanguage(dict(site.config), pages.components)  # type: ignore[assignment]
    mounted = api.routes[-1]
    assert isinstance(mounted, Mount)
    assert isinstance(mounted.app, FastAPI)
    mounted.app.user_middleware.append(Middleware(Translated, media_type="text/html", rewrite=name_language))
    mounted.app.add_middleware(GradioGuard, pages=[link.path for link, _ in PAGES], sessions=sessions)
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


def _frame(site: gr.Blocks, parts: PageParts, link: PageLink, build: Callable[[gr.Blocks, PageParts], None]) -> None:
    gr.HTML(render_header([each for each, _ in PAGES], link, has_logins=parts.has_logins), js_on_load=None)
    with gr.Column(elem_id="content"):
        build(site, parts)
    gr.HTML(render_footer(parts.about), js_on_load=None)
