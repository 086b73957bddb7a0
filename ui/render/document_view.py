"""HTML of the document dialog: text around a marked passage."""

from __future__ import annotations

import re
from typing import NamedTuple

from markupsafe import Markup

from app.types.documents import Document, TextWindow
from app.types.pages import PAGED_TYPES
from app.types.texts import TextLayout
from ui.language import _, html, percent
from ui.render.structured_text import Marked, StructuredText
from ui.render.text import clean, name_of, render_source_link, shorten

VIEW_CHARACTERS = 6_000
BEFORE_PASSAGE = 2_000
_OVERLAP = 300  # characters that “Earlier” and “Later” repeat
_LONGEST_PASSAGE = 20_000
_LONGEST_WORD = 60
_LEADING = re.compile(rf"(?:\S{{0,{_LONGEST_WORD}}}\s)?")
PDF = "application/pdf"
NO_LAYOUT = TextLayout()


class PassagePlace(NamedTuple):
    """Character range [start, end) of a passage, empty if end <= start, and the range of its best sentence."""

    start: int
    end: int
    page: int | None = None
    sentence: tuple[int, int] = (0, 0)


def view_bounds(start: int, end: int) -> tuple[int, int]:
    """The character range to show around the passage [start, end)."""
    first = max(0, start - BEFORE_PASSAGE)
    return first, max(first + VIEW_CHARACTERS, min(end, start + _LONGEST_PASSAGE) + BEFORE_PASSAGE)


def render_document_view(
    document: Document, window: TextWindow, passage: PassagePlace, *, layout: TextLayout = NO_LAYOUT, chunk: str = ""
) -> str:
    """A <dialog>. Its buttons have data-event="open" with the document, the passage and the start of the shown text
    (data-from). `chunk` is the chunk id of the opened hit.
    """
    earlier = window.start - VIEW_CHARACTERS + _OVERLAP
    later = window.end - _OVERLAP
    page = passage.page
    return html(
        '<dialog class="document-view" aria-labelledby="document-view-title" data-chunk="{chunk}"><header><div><h2 '
        'id="document-view-title" dir="auto">{title}</h2><p '
        'class="document-view-source">{source}{page}</p></div><button type="button" '
        'class="plain-button" data-close-dialog>[[Close]]</button></header><p '
        'class="document-view-tools">{original}<span>{place}</span></p>{page_view}'
        '<div class="document-view-body"{hidden} data-text-view>{earlier}<div '
        'class="document-view-text" dir="auto" tabindex="0">{text}</div>{later}</div>{hits}</dialog>'
    ).format(
        chunk=clean(chunk),
        page_view=_render_page_view(document, passage),
        hidden=Markup(" hidden") if _has_page(document, passage) else "",
        hits=html(_HITS),
        title=shorten(name_of(document), 200),
        source=render_source_link(document.uri, 120),
        page=html(" · [[page]] {}").format(page) if page is not None else "",
        original=_render_original(document, page),
        place=_place(window),
        earlier=_render_move(document, passage, max(0, earlier), _("Show earlier text")) if window.start > 0 else "",
        text=_render_text(window, passage, layout),
        later=_render_move(document, passage, later, _("Show later text")) if window.end < window.total else "",
    )


_PAGE_TOOLS = (
    '<div class="page-tools" role="group" aria-label="[[Page]]"><span><button type="button" class="plain-button" '
    'data-page-step="-1" aria-label="[[Previous page]]">‹</button> <span data-page-place aria-live="polite"></span> '
    '<button type="button" class="plain-button" data-page-step="1" aria-label="[[Next page]]">›</button></span>'
    '<span><button type="button" class="plain-button" data-zoom="-1" aria-label="[[Smaller]]">−</button> <button '
    'type="button" class="plain-button" data-zoom="0">[[Fit]]</button> <button type="button" class="plain-button" '
    'data-zoom="1" aria-label="[[Larger]]">+</button></span><button type="button" class="plain-button" '
    'data-page-text aria-pressed="false">[[Text]]</button></div><div class="page-view" data-page-view '
    'data-document="{document}" data-page="{page}" data-start="{start}" data-end="{end}" data-sentence-start="{first}" '
    'data-sentence-end="{last}" tabindex="0" role="region" '
    'aria-label="[[Page]]"></div>'
)
# A script shows it if the page has a list of hits.
_HITS = (
    '<div class="document-view-hits" data-hit-tools hidden><button type="button" class="plain-button" '
    'data-hit-step="-1">[[Previous hit]]</button> <span data-hit-place></span> <button type="button" '
    'class="plain-button" data-hit-step="1">[[Next hit]]</button></div>'
)


def _has_page(document: Document, passage: PassagePlace) -> bool:
    return document.media_type in PAGED_TYPES and passage.page is not None


def _render_page_view(document: Document, passage: PassagePlace) -> Markup:
    """Container for the page image that a script loads; empty for documents without page images."""
    if not _has_page(document, passage):
        return Markup("")
    return html(_PAGE_TOOLS).format(
        document=clean(document.id),
        page=passage.page,
        start=passage.start,
        end=passage.end,
        first=passage.sentence[0],
        last=passage.sentence[1],
    )


def render_view_notice(notice: Markup) -> str:
    """The dialog with a notice why the document cannot be opened."""
    return html(
        '<dialog class="document-view" aria-label="[[Document]]">{}<p '
        'class="document-view-tools"><button type="button" class="plain-button" '
        "data-close-dialog>[[Close]]</button></p></dialog>"
    ).format(notice)


def render_deleted() -> str:
    return html(
        '<dialog class="document-view" aria-labelledby="document-view-title"><header><div><h2 '
        'id="document-view-title">[[This document was deleted]]</h2></div><button type="button" '
        'class="plain-button" data-close-dialog>[[Close]]</button></header><div class="notice" '
        'role="status"><p>[[Its text is no longer available. The hits behind this window are older;]] <a '
        'href="">[[search again]]</a> [[to update them.]]</p></div></dialog>'
    )


def _render_original(document: Document, page: int | None) -> Markup:
    is_pdf = document.media_type == PDF
    fragment = f"#page={page}" if is_pdf and page is not None else ""
    label = _("Open the PDF") if is_pdf else _("Download the original")
    if fragment:
        label = _("Open the PDF at page {page}").format(page=page)
    return Markup('<a href="/api/v1/documents/{}/content{}" target="_blank" rel="noopener">{}</a>').format(
        clean(document.id), fragment, label
    )


def _place(window: TextWindow) -> str:
    if not window.total:
        return _("No text")
    if window.start == 0 and window.end == window.total:
        return _("The whole text")
    first, last = 100 * window.start // window.total, -(-100 * window.end // window.total)
    return _("From {first} to {last} of the text").format(first=percent(first / 100), last=percent(last / 100))


def _render_move(document: Document, passage: PassagePlace, place: int, label: str) -> Markup:
    start, end, page, sentence = passage
    return Markup(
        '<p class="document-view-move"><button type="button" class="plain-button" data-event="open" '
        'data-document="{}" data-start="{}" data-end="{}" data-page="{}" data-from="{}" '
        'data-sentence="{}-{}">{}</button></p>'
    ).format(clean(document.id), start, end, "" if page is None else page, place, *sentence, label)


def _render_text(window: TextWindow, passage: PassagePlace, layout: TextLayout) -> Markup:
    text = window.text
    first = min(max(passage.start - window.start, 0), len(text))
    last = min(max(passage.end - window.start, first), len(text))
    # Omit words cut at the window's edges; the overlap shows them.
    begin = _LEADING.match(text, 0, first).end() if window.start else 0  # type: ignore[union-attr]
    stop = max(last, text.rfind(" ", len(text) - _LONGEST_WORD)) if window.end < window.total else len(text)
    marked = Marked(window.start + first, window.start + last, passage.sentence)
    shown = StructuredText(text, window.start, layout, marked).render(window.start + begin, window.start + stop)
    return Markup("{}{}{}").format("… " if window.start else "", shown, " …" if window.end < window.total else "")
