"""The page for an address that does not exist: plain HTML, because Gradio has no such page."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup

from ui.contract import SEARCH
from ui.language import current_language, html
from ui.theme import ASSETS, SANS

_PAGE = (
    '<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
    "<title>[[Page not found]] · gircse-search</title>"
    '<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style></head><body><main>'
    '<p class="brand">gircse <span>search</span></p><h1>[[There is no page at this address]]</h1>'
    '<a class="button" href="{search}">[[Go to the search]]</a></main></body></html>'
)


def render_missing_page() -> str:
    return html(_PAGE).format(language=current_language(), css=_css(), search=SEARCH.path)


@cache
def _css() -> Markup:
    return Markup((ASSETS / "login.css").read_text(encoding="utf-8").replace("SANS", SANS))  # noqa: S704
