"""Helpers for HTML: cleaned text, notices, errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from urllib.parse import urlencode, urlsplit

from markupsafe import Markup

from app.types.documents import Document
from app.types.file_names import shown_title
from app.types.search import HitDocument
from app.types.uris import shown_address
from ui.contract import DOCUMENTS
from ui.core_messages import translate_message
from ui.language import _, html, later, moment, number

_UNITS = (later("bytes"), "kB", "MB", "GB", "TB")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
# Metadata keys that the readers write, in words. All other keys are the document's own and stay as they are.
_KEYS = {
    "file_type": later("file type"),
    "folder": later("folder"),
    "year": later("year"),
    "author": later("author"),
    "from": later("from"),
    "to": later("to"),
    "tags": later("tags"),
    "language": later("language"),
    "recognized_pages": later("recognised pages"),
    "recognition_confidence": later("confidence of recognition"),
    "unread_pages": later("pages without text"),
    "encoding_guessed": later("encoding guessed"),
    "skipped_attachments": later("skipped attachments"),
    "skipped_messages": later("skipped messages"),
    "skipped_files": later("skipped files"),
    "skipped_lines": later("skipped lines"),
    "skipped_passages": later("skipped passages"),
    "skipped_parts": later("skipped parts"),
}
_TRUTH = {"true": later("Yes"), "false": later("No")}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def clean(text: str) -> str:
    """Replaces characters that are invalid in JSON or HTML: NUL, control characters, lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def shorten(text: str, max_chars: int) -> str:
    text = clean(text)
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "…"


def shown_key(key: str, max_chars: int) -> str:
    """A metadata key as people read it."""
    return shorten(_(_KEYS.get(key, "")) or key, max_chars)


def shown_value(value: object) -> str:
    """Formats a metadata value: timestamps as local date and minute, truth values as Yes and No, all else
    unchanged."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text in _TRUTH:
        return _(_TRUTH[text])
    if _MOMENT.fullmatch(text):
        with suppress(ValueError):  # the 31st of February
            return moment(datetime.fromisoformat(text))
    return shorten(text, 60)


def join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def render_error(message: str, *, title: str = "") -> str:
    return Markup('<div class="notice is-error" role="alert"><h2>{}</h2><p dir="auto">{}</p></div>').format(
        clean(title or _("Please check this")), shorten(translate_message(message), 1000)
    )


def render_note(message: str, *, until_upload: bool = False) -> str:
    """`until_upload`: the note asks for files and disappears with the first upload (ui/assets/upload.js)."""
    return Markup('<div class="notice" role="status"{}><p dir="auto">{}</p></div>').format(
        Markup(" data-until-upload") if until_upload else "", shorten(message, 1000)
    )


def render_reader_note() -> str:
    """Shown by the stylesheet only to people with the role reader."""
    return html(
        '<div class="notice for-readers"><p>[[You may search and read here. To add, change or judge documents you need '
        'the role editor; an admin of this server can give it to you.]] <a href="/account">[[Your account]]</a>'
        "</p></div>"
    )


def shown_size(byte_count: int) -> str:
    size, unit = float(byte_count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    shown = round(size) if unit == 0 or size >= 100 else round(size, 1)
    return f"{number(shown)} {_UNITS[unit] if unit else _(_UNITS[0])}"


def name_of(document: Document | HitDocument) -> str:
    return shown_title(document.title, document.uri)


def render_source_link(uri: str, max_chars: int) -> Markup:
    """Links only web addresses; `javascript:` and other schemes must not be clickable."""
    uri = clean(uri)
    shown = shorten(shown_address(uri), max_chars)
    if not is_web_address(uri):
        return Markup("<span>{}</span>").format(shown)
    return Markup('<a href="{}" target="_blank" rel="noopener noreferrer">{}</a>').format(uri, shown)


def render_place(document: HitDocument) -> Markup:
    """The collection of a hit as a link, for searches of all collections."""
    address = f"{DOCUMENTS.path}?{urlencode({'collection': document.collection}, errors='replace')}"
    return html(' · [[in]] <a class="place" href="{}">{}</a>').format(address, shorten(document.collection, 63))


def is_web_address(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
