"""Texts of annotations of a page: values of form fields, text written onto the page, and comments."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from app.errors import DocumentError
from ingest.readers.html import read_html
from ingest.readers.limits import ReadLimits
from ingest.readers.pdf_pages import page_of
from ingest.readers.pdf_words import PageWord, are_garbled, rectangle_of, words_of

_SHOWN = (raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP)
_VALUED = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_CHECKED = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
# Marks with a comment, which a viewer shows beside the page.
_COMMENTED = (
    *(raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_UNDERLINE, raw.FPDF_ANNOT_SQUIGGLY),
    *(raw.FPDF_ANNOT_STRIKEOUT, raw.FPDF_ANNOT_CARET, raw.FPDF_ANNOT_SQUARE, raw.FPDF_ANNOT_CIRCLE),
    *(raw.FPDF_ANNOT_LINE, raw.FPDF_ANNOT_POLYGON, raw.FPDF_ANNOT_POLYLINE, raw.FPDF_ANNOT_INK),
    *(raw.FPDF_ANNOT_STAMP, raw.FPDF_ANNOT_FILEATTACHMENT),
)
_PASSWORD = 1 << 13  # flags of fields and annotations
_HIDDEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_MOST = 5_000  # annotations of a page
_LONGEST = 100_000  # characters of a value
_CHECK = "✓"
_TORN = 1.5  # times the words of a value: with more words drawn, its letters are in boxes
_LINE = 12.0  # points: the height of a line of a value that is not drawn


class LoadedPage(NamedTuple):
    page: pdfium.PdfPage
    words: list[PageWord]  # including those of annotations
    own: list[PageWord]  # without them
    comments: list[str]  # with their authors; a viewer shows them beside the page
    files: list[str]  # the names of files attached to the page

    @property
    def added(self) -> list[PageWord]:
        """The words of annotations."""
        own = set(map(_key, self.own))
        return [word for word in self.words if _key(word) not in own]


@contextmanager
def loaded(document: pdfium.PdfDocument, number: int) -> Iterator[LoadedPage]:
    """A page, counted from 1, with its annotations drawn into it."""
    with page_of(document, number) as page:
        own, comments, files = words_of(page), list(_comments(page)), list(_files(page))
        if not any(raw.FPDFAnnot_GetSubtype(annotation) in _SHOWN for annotation in _annotations(page)):
            yield LoadedPage(page, own, own, _beside(comments, ""), files)
            return
        values = list(_values(page, document.formenv))
        raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
    with page_of(document, number) as page:
        words = with_values(own, words_of(page), values)
        yield LoadedPage(page, words, own, _beside(comments, _letters(words)), files)


class _Value(NamedTuple):
    """The text of an annotation as words, and its rectangle in points."""

    words: tuple[PageWord, ...]
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, word: PageWord) -> bool:
        across, down = (word.left + word.right) / 2, (word.top + word.bottom) / 2
        return self.left - 1 <= across <= self.right + 1 and self.top - 1 <= down <= self.bottom + 1


def with_values(own: list[PageWord], drawn: list[PageWord], values: list[_Value]) -> list[PageWord]:
    """The words of a page `drawn` with its annotations, with values that are not drawn. `own`: without annotations.

    Also replaces drawn values with separated letters, as in one box per letter, and cut values, as in a small field, by
    their words."""
    if are_garbled(drawn) and not are_garbled(own):
        drawn = own  # PDFium can lose the letters of fonts while it draws annotations into a page
    before = Counter(map(_key, own))
    added = [word for word in drawn if not _taken(before, word)]
    words = list(drawn)
    everywhere = _letters(added)
    for value in values:
        inside = [word for word in added if value.holds(word)]
        letters = _letters(value.words)
        is_drawn = letters in _letters(inside)
        if (is_drawn and len(inside) <= _TORN * len(value.words)) or (not is_drawn and letters in everywhere):
            continue
        if inside and (is_drawn or _letters(inside) in letters):  # in boxes, or only a part is drawn
            torn = set(map(id, inside))
            words = [word for word in words if id(word) not in torn]
        words += value.words
    return words


def _key(word: PageWord) -> tuple[str, int, int]:
    return word.text, round(word.left), round(word.top)


def _taken(before: Counter[tuple[str, int, int]], word: PageWord) -> bool:
    key = _key(word)
    before[key] -= 1
    return before[key] >= 0


def _letters(words: Sequence[PageWord]) -> str:
    return _letters_of("".join(word.text for word in words))


def _letters_of(text: str) -> str:
    return "".join(char for char in text if char.isalnum() or char == _CHECK).casefold()


def _values(page: pdfium.PdfPage, form: pdfium.PdfFormEnv | None) -> Iterator[_Value]:
    box = raw.FS_RECTF()
    for annotation in _annotations(page):
        text = _text_of(annotation, form)
        if text.strip() and raw.FPDFAnnot_GetRect(annotation, box):
            place = rectangle_of(page, box.left, box.top, box.right, box.bottom)
            yield _Value(tuple(_placed(text, *place)), *place)


class _Comment(NamedTuple):
    text: str
    author: str
    may_be_drawn: bool  # the look of a stamp may show it


def _comments(page: pdfium.PdfPage) -> Iterator[_Comment]:
    for annotation in _annotations(page):
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if kind in _COMMENTED and (text := " ".join(_entry(annotation, b"Contents", b"RC").split())):
            author = " ".join(_entry(annotation, b"T").split())
            yield _Comment(text, author, kind == raw.FPDF_ANNOT_STAMP)


def _beside(comments: Sequence[_Comment], drawn: str) -> list[str]:
    return [
        f"Comment by {comment.author}: {comment.text}" if comment.author else f"Comment: {comment.text}"
        for comment in comments
        if not (comment.may_be_drawn and _letters_of(comment.text) in drawn)
    ]


def _files(page: pdfium.PdfPage) -> Iterator[str]:
    for annotation in _annotations(page):
        if file := raw.FPDFAnnot_GetFileAttachment(annotation):
            yield _string(partial(raw.FPDFAttachment_GetName, file))


def _entry(annotation: raw.FPDF_ANNOTATION, key: bytes, rich: bytes = b"") -> str:
    """An entry of an annotation; if it is blank, the text of its `rich` form, which is XHTML."""
    text = _string(partial(raw.FPDFAnnot_GetStringValue, annotation, key))
    if rich and not text.strip() and (page := _string(partial(raw.FPDFAnnot_GetStringValue, annotation, rich))):
        with suppress(DocumentError):
            return read_html(page.encode("utf-8"), ReadLimits(), "utf-8").text
    return text


@contextmanager
def _opened(page: pdfium.PdfPage, at: int) -> Iterator[raw.FPDF_ANNOTATION | None]:
    annotation = raw.FPDFPage_GetAnnot(page, at)
    try:
        yield annotation or None
    finally:
        if annotation:
            raw.FPDFPage_CloseAnnot(annotation)


def _annotations(page: pdfium.PdfPage) -> Iterator[raw.FPDF_ANNOTATION]:
    for at in range(min(_MOST, raw.FPDFPage_GetAnnotCount(page))):
        with _opened(page, at) as annotation:
            if annotation is not None and not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
                yield annotation


def _text_of(annotation: raw.FPDF_ANNOTATION, form: pdfium.PdfFormEnv | None) -> str:
    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if kind == raw.FPDF_ANNOT_FREETEXT:
        return _entry(annotation, b"Contents", b"RC")
    if kind != raw.FPDF_ANNOT_WIDGET or form is None:
        return ""
    field = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if field in _CHECKED:
        return _CHECK if raw.FPDFAnnot_IsChecked(form, annotation) else ""
    if field not in _VALUED or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return ""
    is_open = field == raw.FPDF_FORMFIELD_LISTBOX  # shows every option, not only the chosen ones
    if field != raw.FPDF_FORMFIELD_TEXTFIELD and (shown := list(_options(annotation, form, all_of_them=is_open))):
        return "\n".join(shown)
    return _string(partial(raw.FPDFAnnot_GetFormFieldValue, form, annotation)) or _entry(annotation, b"V", b"RV")


def _options(annotation: raw.FPDF_ANNOTATION, form: pdfium.PdfFormEnv, *, all_of_them: bool) -> Iterator[str]:
    """The labels of the chosen or of all options, which users see; the submitted values may differ."""
    for at in range(min(_MOST, raw.FPDFAnnot_GetOptionCount(form, annotation))):
        if all_of_them or raw.FPDFAnnot_IsOptionSelected(form, annotation, at):
            yield _string(partial(raw.FPDFAnnot_GetOptionLabel, form, annotation, at))


def _string(read: Callable[[Any, int], int]) -> str:
    size = read(None, 0)
    if not 2 < size <= 2 * _LONGEST:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace").replace("\r", "\n")


def _placed(text: str, left: float, top: float, right: float, bottom: float) -> Iterator[PageWord]:
    """Places words in a rectangle, line below line, each as wide as its share of the line."""
    lines = [line for line in text.split("\n") if line.strip()]
    height = min(_LINE, (bottom - top) / len(lines))
    for number, line in enumerate(lines):
        step = min((right - left) / len(line), height)
        at = 0
        for word in line.split():
            at = line.index(word, at)
            place = left + at * step, top + number * height, left + (at + len(word)) * step, top + (number + 1) * height
            yield PageWord(word, *place, height, 0, 0, True)
            at += len(word)
