"""A document opened at the right place: its text around a passage, which is marked, in a dialog."""

from __future__ import annotations

import re
from typing import NamedTuple

from markupsafe import Markup

from app.types.documents import Document, TextWindow
from ui.language import _, html, number
from ui.render.text import clean, name_of, render_source_link, shorten

VIEW_CHARACTERS = 6_000
BEFORE_PASSAGE = 2_000
_OVERLAP = 300  # characters that earlier and later share with what was shown
_LONGEST_PASSAGE = 20_000
_LONGEST_WORD = 60
_LEADING = re.compile(rf"(?:\S{{0,{_LONGEST_WORD}}}\s)?")
PDF = "application/pdf"


class PassagePlace(NamedTuple):
    """Characters [start, end) of a document's text, none where end <= start; and those of its best sentence."""

    start: int
    end: int
    page: int | None = None
    sentence: tuple[int, int] = (0, 0)


def view_bounds(start: int, end: int) -> tuple[int, int]:
    """Which characters to show around the passage [start, end)."""
    first = max(0, start - BEFORE_PASSAGE)
    return first, max(first + VIEW_CHARACTERS, min(end, start + _LONGEST_PASSAGE) + BEFORE_PASSAGE)


def render_document_view(document: Document, window: TextWindow, passage: PassagePlace) -> str:
    """A <dialog>. Its buttons carry data-event="open" with the document, the passage and the place to show from
    (data-from).
    """
    earlier = window.start - VIEW_CHARACTERS + _OVERLAP
    later = window.end - _OVERLAP
    page = passage.page
    return html(
        '<dialog class="document-view" aria-labelledby="document-view-title"><header><div><h2 '
        'id="document-view-title" dir="auto">{title}</h2><p '
        'class="document-view-source">{source}{page}</p></div><button type="button" '
        'class="plain-button" data-close-dialog>[[Close]]</button></header><p '
        'class="document-view-tools">{original}<span>{place}</span></p>{earlier}<div '
        'class="document-view-text" dir="auto" tabindex="0">{text}</div>{later}</dialog>'
    ).format(
        title=shorten(name_of(document), 200),
        source=render_source_link(document.uri, 120),
        page=html(" · [[page]] {}").format(page) if page is not None else "",
        original=_render_original(document, page),
        place=_place(window),
        earlier=_render_move(document, passage, max(0, earlier), _("Earlier")) if window.start > 0 else "",
        text=_render_text(window, passage),
        later=_render_move(document, passage, later, _("Later")) if window.end < window.total else "",
    )


def render_view_notice(notice: Markup) -> str:
    """Why a document cannot be opened, in the dialog in which it would be."""
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
        'role="status"><p>[[Its text is no longer here. What is shown behind this was found '
        'before;]] <a href="">[[look again]]</a> [[for what is there now.]]</p></div></dialog>'
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
        return _("{count} characters").format(count=number(window.total))
    return _("Characters {first}–{last} of {total}").format(
        first=number(window.start + 1), last=number(window.end), total=number(window.total)
    )


def _render_move(document: Document, passage: PassagePlace, place: int, label: str) -> Markup:
    start, end, page, sentence = passage
    return Markup(
        '<p class="document-view-move"><button type="button" class="plain-button" data-event="open" '
        'data-document="{}" data-start="{}" data-end="{}" data-page="{}" data-from="{}" '
        'data-sentence="{}-{}">{}</button></p>'
    ).format(clean(document.id), start, end, "" if page is None else page, place, *sentence, label)


def _render_text(window: TextWindow, passage: PassagePlace) -> Markup:
    text = window.text
    first = min(max(passage.start - window.start, 0), len(text))
    last = min(max(passage.end - window.start, first), len(text))
    # Words that the window cuts in two are left out; there is an overlap.
    begin = _LEADING.match(text, 0, first).end() if window.start else 0  # type: ignore[union-attr]
    stop = max(last, text.rfind(" ", len(text) - _LONGEST_WORD)) if window.end < window.total else len(text)
    before, after = text[begin:first], text[last:stop]
    low = min(max(passage.sentence[0] - window.start, first), last)
    high = min(max(passage.sentence[1] - window.start, low), last)
    sentence = Markup('<strong id="sentence">{}</strong>').format(clean(text[low:high])) if low < high else ""
    mark = (
        Markup('<mark id="passage">{}{}{}</mark>').format(clean(text[first:low]), sentence, clean(text[high:last]))
        if first < last
        else ""
    )
    return Markup("{}{}{}{}{}").format(
        "… " if window.start else "",
        clean(before),
        mark,
        clean(after),
        " …" if window.end < window.total else "",
    )
