"""Parses a file into text in this process. Uses no network and no embedding model.

Every refusal is a DocumentError that says what is wrong with the document and what to do.
"""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

from app.errors import DocumentError
from app.ports.texts import TextSink
from app.types.documents import MetadataValue
from app.types.pages import PageWords
from app.types.texts import ExtractedText, Findings, TextPart
from ingest.readers.content_types import detect
from ingest.readers.default_passwords import unlocked
from ingest.readers.errors import damaged, parser_errors
from ingest.readers.limits import DEFAULT_LIMITS, LONGEST_VALUE, ReadLimits, check_length, check_size
from ingest.readers.media_types import (
    ASCIIDOC,
    CALENDAR,
    CODE,
    COMPRESSED,
    CONTACTS,
    DOC,
    DOCX,
    IWORK,
    JSON_LINES,
    MARKDOWN,
    ODP,
    ODS,
    ODT,
    ORG,
    PICTURES,
    PPT,
    PPTX,
    PROPERTY_LIST,
    RESTRUCTURED,
    RTF,
    SIGNED,
    SUBTITLES,
    TAR,
    TNEF,
    TRANSLATIONS,
    VISIO,
    XLS,
    XLSX,
    XPS,
    charset_of,
    known_type,
    path_of,
    type_of_suffix,
)
from ingest.readers.parts import Opened, Piece, cut_parts, pieces_of
from ingest.readers.text import clean_text, read_code, read_text
from ingest.text_headings import AsciidocHeadings, Headings, MarkdownHeadings, OrgHeadings, RestructuredHeadings
from ingest.titles import choose_title, heading_text

_Open = Callable[[BinaryIO, ReadLimits, str], Opened]  # the last argument is the declared charset, or empty


def _streamed(module: str, name: str, *, takes_charset: bool = False) -> _Open:
    """A format read piece by piece. Its module is imported on first use: few folders need all, and they take 0.5 s."""

    def open_streamed(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
        more = (charset,) if takes_charset else ()
        opened: Opened = _function(module, name)(stream, limits, *more)
        return opened

    return open_streamed


def _whole(module: str, name: str, *more: object, takes_charset: bool = False) -> _Open:
    """A format that must be read as a whole."""

    def open_whole(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
        options = (charset, *more) if takes_charset else more
        extracted: ExtractedText = _function(module, name)(stream.read(), limits, *options)
        return Opened(extracted.title, dict(extracted.metadata), pieces_of(extracted))

    return open_whole


def _container(module: str, name: str, *, takes_charset: bool = False) -> _Open:
    return _whole(module, name, lambda *data, **options: read_document(*data, **options), takes_charset=takes_charset)


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"ingest.readers.{module}"), name)


# Media type → the name of the format in messages, and its reader.
_FORMATS: dict[str, tuple[str, _Open]] = {
    "text/plain": ("text", read_text),
    "text/html": ("HTML", _whole("html", "read_html", takes_charset=True)),
    "application/pdf": ("PDF", _streamed("pdf", "read_pdf")),
    **dict.fromkeys(PICTURES, ("picture", _streamed("pictures", "read_picture"))),
    DOCX: ("Word document", _container("office", "read_docx")),
    PPTX: ("PowerPoint presentation", _container("slides", "read_pptx")),
    VISIO: ("Visio drawing", _whole("visio", "read_visio")),
    IWORK: ("iWork document", _container("iwork", "read_iwork")),
    XPS: ("XPS document", _whole("xps", "read_xps")),
    XLSX: ("Excel workbook", _container("sheets", "read_xlsx")),
    DOC: ("Word document", _container("legacy_office", "read_doc")),
    PPT: ("PowerPoint presentation", _container("legacy_office", "read_ppt")),
    XLS: ("Excel workbook", _container("legacy_office", "read_xls")),
    RTF: ("RTF document", _whole("rtf", "read_rtf")),
    **dict.fromkeys((ODT, ODS, ODP), ("OpenDocument file", _container("open_document", "read_open_document"))),
    "text/csv": ("table", _streamed("csv_tables", "read_csv", takes_charset=True)),
    "text/tab-separated-values": ("table", _streamed("csv_tables", "read_csv", takes_charset=True)),
    "application/json": ("JSON", _whole("records", "read_json", takes_charset=True)),
    JSON_LINES: ("JSON", _streamed("records", "read_json_lines", takes_charset=True)),
    TRANSLATIONS: ("text", _whole("translations", "read_translations", takes_charset=True)),
    PROPERTY_LIST: ("property list", _container("property_lists", "read_property_list")),
    "application/x-ipynb+json": ("notebook", _whole("notebooks", "read_notebook")),
    "application/xml": ("XML", _container("xml", "read_xml", takes_charset=True)),
    "text/troff": ("manual page", _whole("manuals", "read_manual", takes_charset=True)),
    SUBTITLES: ("subtitles", _whole("subtitles", "read_subtitles", takes_charset=True)),
    "text/vtt": ("subtitles", _whole("subtitles", "read_subtitles", takes_charset=True)),
    CALENDAR: ("calendar", _whole("calendars", "read_calendar", takes_charset=True)),
    CONTACTS: ("address book", _whole("calendars", "read_contacts", takes_charset=True)),
    "application/epub+zip": ("EPUB", _whole("books", "read_epub")),
    "message/rfc822": ("message", _container("mail", "read_message")),
    "application/mbox": ("mailbox", _container("mail", "read_mailbox")),
    "application/vnd.ms-outlook": ("message", _container("outlook", "read_outlook")),
    TNEF: ("message", _container("tnef", "read_tnef")),
    "application/zip": ("zip archive", _container("bundles", "read_zip")),
    TAR: ("tar archive", _container("bundles", "read_tar")),
    **dict.fromkeys(CODE, ("source code", read_code)),
    "text/x-properties": ("source code", _streamed("text", "read_properties", takes_charset=True)),
    "text/x-latex": ("source code", _streamed("tex", "read_latex", takes_charset=True)),
    **dict.fromkeys(
        (MARKDOWN, RESTRUCTURED, ASCIIDOC, ORG), ("text", _streamed("markup", "read_markup", takes_charset=True))
    ),
}
# Files that hold one other file, and what unwraps it.
_WRAPPERS = {COMPRESSED: ("bundles", "decompressed"), SIGNED: ("signed_files", "signed_file")}
_HEADINGS: dict[str, Callable[[], Headings]] = {
    MARKDOWN: MarkdownHeadings,
    RESTRUCTURED: RestructuredHeadings,
    ASCIIDOC: AsciidocHeadings,
    ORG: OrgHeadings,
}
_MOST_HEADINGS = 20  # headings that are considered for a title
_TEXT = "text://"  # scheme of texts that were submitted without a file
_FIRST_WORDS = 80  # characters that name a text without title and file name


def read_file(
    path: Path, *, uri: str, media_type: str | None = None, into: TextSink, limits: ReadLimits = DEFAULT_LIMITS
) -> Findings:
    """Implements the port `Reader` in this process. Raises DocumentError."""
    with path.open("rb") as stream:
        return _read(stream, uri=uri, media_type=media_type, limits=limits, into=into)


def read_document(
    data: bytes, *, uri: str, media_type: str | None = None, limits: ReadLimits = DEFAULT_LIMITS
) -> ExtractedText:
    """Parses a document that is already in memory, such as a member of an archive. Raises DocumentError."""
    text = TextInMemory()
    findings = _read(io.BytesIO(data), uri=uri, media_type=media_type, limits=limits, into=text)
    return text.of(findings)


def page_of(path: Path, media_type: str, page: int, width: int, limits: ReadLimits) -> PageWords | bytes:
    """One page: a JPEG image `width` pixels wide, or its words if `width` is 0. Raises DocumentError."""
    try:
        page_view: PageWords | bytes = _function("page_views", "page_of")(path, media_type, page, width, limits)
    except DocumentError:
        raise
    except parser_errors() as error:
        raise damaged("document", error) from error
    return page_view


class TextInMemory:
    """A `TextSink` that keeps the parts in memory."""

    def __init__(self) -> None:
        self._parts: list[TextPart] = []

    def write(self, part: TextPart) -> None:
        self._parts.append(part)

    def clear(self) -> None:
        self._parts.clear()

    def advance(self, share: float) -> None:
        """Does nothing: progress of members is not reported."""

    def of(self, findings: Findings) -> ExtractedText:
        return ExtractedText(
            "".join(part.text for part in self._parts),
            title=findings.title,
            media_type=findings.media_type,
            metadata=findings.metadata,
            page_starts=tuple(start for part in self._parts for start in part.page_starts),
            marks=tuple(mark for part in self._parts for mark in part.marks),
            cells=tuple(cell for part in self._parts for cell in part.cells),
            words=tuple(word for part in self._parts for word in part.words),
        )


def _read(stream: BinaryIO, *, uri: str, media_type: str | None, limits: ReadLimits, into: TextSink) -> Findings:
    check_size(stream.seek(0, os.SEEK_END), limits)
    stream = unlocked(stream)
    detected = detect(stream, uri=uri, declared=media_type or "")
    known = known_type(detected)
    if known in _WRAPPERS:
        return _read_within(known, stream, uri=uri, limits=limits, into=into)
    opened, begin, headings = _read_text(known, charset_of(detected), stream, limits, into)
    metadata = {key: _clean_value(value) for key, value in opened.metadata.items()}
    if language := CODE.get(known):
        metadata["language"] = language
    path = path_of(uri)
    name = path.name if language or not type_of_suffix(uri) else path.stem.removesuffix(".tar")
    declared = opened.late_title() if opened.late_title else opened.title
    # Headings of archives and workbooks are only the names of their parts.
    candidates = [declared, *headings] if declared or known in _HEADINGS else [declared]
    title = choose_title(map(clean_text, candidates))
    is_named = not uri.startswith(_TEXT)
    untitled = (clean_text(name) if is_named else "") or textwrap.shorten(begin, _FIRST_WORDS, placeholder=" …")
    return Findings((title or untitled)[:LONGEST_VALUE], known, metadata, is_titled=bool(title))


def _read_within(wrapper: str, stream: BinaryIO, *, uri: str, limits: ReadLimits, into: TextSink) -> Findings:
    """Reads the one file in it, whose name is that of the outer file without its last suffix."""
    data: bytes = _function(*_WRAPPERS[wrapper])(stream, limits)
    name, _, suffix = uri.rpartition(".")
    inner = name if name and type_of_suffix(f"a.{suffix}") == wrapper else uri
    within = replace(limits, max_nesting=limits.max_nesting - 1)
    findings = _read(io.BytesIO(data), uri=inner, media_type=None, limits=within, into=into)
    return findings if findings.media_type == TAR else replace(findings, media_type=wrapper)


def _clean_value(value: MetadataValue) -> MetadataValue:
    """Metadata text in NFC, since filters compare values character by character; its begin if it is too long."""
    return normalize("NFC", clean_text(value))[:LONGEST_VALUE] if isinstance(value, str) else value


def _reporting_progress(pieces: Iterable[Piece], into: TextSink) -> Iterator[Piece]:
    for piece in pieces:
        if piece.share is not None:
            into.advance(piece.share)
        yield piece


def _read_text(
    media_type: str, charset: str, stream: BinaryIO, limits: ReadLimits, into: TextSink
) -> tuple[Opened, str, Sequence[str]]:
    """Writes the text to `into`. Returns the opened document, the start of its text, and its first headings."""
    kind, open_format = _FORMATS[media_type]
    length, begin = 0, ""
    headings: list[str] = []
    marked = _HEADINGS.get(media_type)
    finder = marked() if marked else None
    try:
        opened = open_format(stream, limits, charset)
        for part in cut_parts(_reporting_progress(opened.pieces, into)):
            if finder:
                part = replace(part, marks=finder.marks(part.text, length))
            if len(headings) < _MOST_HEADINGS:
                headings += _headings_of(part, length)
            length += len(part.text)
            check_length(length, limits)
            begin = begin or part.text.strip()[: 10 * _FIRST_WORDS]
            into.write(part)
    except DocumentError:
        raise
    except parser_errors() as error:
        raise damaged(kind, error) from error
    if not begin:
        raise DocumentError("This document is empty: no text was found in it. Check that it is the right file.")
    return opened, begin, headings


def _headings_of(part: TextPart, begin: int) -> Iterator[str]:
    for mark in part.marks[: 10 * _MOST_HEADINGS]:
        if mark.is_heading:
            yield heading_text(part.text[mark.start - begin : mark.end - begin])
