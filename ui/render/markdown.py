"""Markdown of others, such as a model's card, as HTML that neither runs nor fetches anything.

Raw HTML and pictures are left out; links stay where they lead to the web.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from ui.render.text import clean, is_web_address

MAX_CHARS = 100_000
LOWEST_HEADING = 6


def render_markdown(text: str, *, first_heading: int = 3) -> Markup:
    """`first_heading` is the level that a heading of the first level gets, to fit under those of the page."""
    parser = MarkdownIt("commonmark").enable("table").disable("image")
    for name in ("html_block", "html_inline"):
        parser.add_render_rule(name, _leave_out)
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _render_code)
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("link_close", _close_link)
    tokens = parser.parse(clean(text[:MAX_CHARS]))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + first_heading - 1, LOWEST_HEADING)}"
        # The column's alignment comes as a style of its own; the page has one for all tables.
        token.attrs.pop("style", None)
    # All that markdown-it-py writes from here on is text that it escapes, and tags of its own.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704


def _leave_out(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    return ""


def _render_code(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Long lines scroll, and what scrolls must be reached by keys."""
    return str(Markup('<pre tabindex="0"><code>{}</code></pre>\n').format(tokens[place].content))


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    address = str(tokens[place].attrs.get("href", ""))
    if not is_web_address(address):  # of another file beside the card, which is not served, or worse
        return "<span>"
    return str(Markup('<a href="{}" target="_blank" rel="noopener noreferrer">').format(address))


def _close_link(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Links do not nest: the nearest one before this is the one that it closes."""
    opened = next(token for token in reversed(tokens[:place]) if token.type == "link_open")
    return "</a>" if is_web_address(str(opened.attrs.get("href", ""))) else "</span>"
