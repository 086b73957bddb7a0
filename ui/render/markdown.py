"""Renders untrusted Markdown, such as a model card, as HTML without scripts or external resources.

Omits raw HTML and images; keeps only links to web addresses.
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
    """`first_heading` is the HTML level of first-level headings, to fit into the page."""
    parser = MarkdownIt("commonmark").enable("table").disable("image")
    for name in ("html_block", "html_inline"):
        parser.add_render_rule(name, _leave_out)
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _render_code)
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("link_close", _close_link)
    tokens = parser.parse(clean(text[:MAX_CHARS]))
    for place, token in enumerate(tokens):
        if token.type == "th_open" and not tokens[place + 1].content.strip():
            token.tag = tokens[place + 2].tag = "td"  # an empty cell is no heading
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + first_heading - 1, LOWEST_HEADING)}"
        # Drop inline column alignment; the page styles all tables alike.
        token.attrs.pop("style", None)
    # From here on markdown-it-py writes only escaped text and its own tags.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704


def _leave_out(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    return ""


def _render_code(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Scrollable code needs a tabindex for keyboard users."""
    return str(Markup('<pre tabindex="0"><code>{}</code></pre>\n').format(tokens[place].content))


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    address = str(tokens[place].attrs.get("href", ""))
    if not is_web_address(address):  # a relative link (its target is not served) or an unsafe scheme
        return "<span>"
    return str(Markup('<a href="{}" target="_blank" rel="noopener noreferrer">').format(address))


def _close_link(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    """Links do not nest, so this closes the nearest open link before it."""
    opened = next(token for token in reversed(tokens[:place]) if token.type == "link_open")
    return "</a>" if is_web_address(str(opened.attrs.get("href", ""))) else "</span>"
