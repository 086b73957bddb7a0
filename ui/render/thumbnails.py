"""Optional page thumbnails beside passages."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from app.types.pages import PAGED_SUFFIXES
from app.types.search import Hit
from ui.language import html
from ui.render.text import clean

_SWITCH = (
    '<span class="pictures"><span class="dot"> · </span><button type="button" class="plain" data-thumbnails '
    'aria-pressed="false">[[Pictures of pages]]</button></span>'
)


def _has_page(hit: Hit) -> bool:
    return hit.chunk.page is not None and hit.document.uri.lower().endswith(PAGED_SUFFIXES)


def render_thumbnail(hit: Hit) -> Markup:
    """An attribute with the thumbnail's address; the browser loads it once thumbnails are turned on."""
    if not _has_page(hit):
        return Markup("")
    return Markup(' data-thumbnail="/api/v1/documents/{}/pages/{}/image?width=160"').format(
        clean(hit.document.id), hit.chunk.page
    )


def render_thumbnail_switch(hits: Sequence[Hit]) -> Markup:
    return html(_SWITCH) if any(map(_has_page, hits)) else Markup("")
