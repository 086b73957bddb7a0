"""Translations of gettext (po): a record per message, with its source and its translation."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from babel.messages.catalog import Message
from babel.messages.pofile import PoFileError, read_po

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import TRANSLATIONS
from ingest.readers.tables import join_blocks, record_block
from ingest.readers.text import decode_text

_CHARSET = re.compile(rb"charset=([\w.-]{1,40})\\n")
_CHARSET_WITHIN = 5_000


def read_translations(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    """Files that are something else are read as text."""
    declared = _CHARSET.search(data[:_CHARSET_WITHIN])
    decoded = decode_text(data, charset, declared[1].decode("ascii") if declared else "")
    try:
        catalog = read_po(io.StringIO(decoded.text), ignore_obsolete=True, abort_invalid=True)
    except (PoFileError, ValueError, LookupError, TypeError, AttributeError):
        return ExtractedText(decoded.text, "", "text/plain", decoded.metadata)
    blocks = [block for message in catalog if (block := record_block(_fields(message))).text]
    if not blocks:
        return ExtractedText(decoded.text, "", "text/plain", decoded.metadata)
    text, marks, cells = join_blocks(blocks, limits)
    return ExtractedText(text, "", TRANSLATIONS, decoded.metadata, marks=marks, cells=cells)


def _fields(message: Message) -> Iterator[tuple[str, str]]:
    if not message.id:  # the header
        return
    for comment in (*message.user_comments, *message.auto_comments):
        yield "comment", comment
    if message.context:
        yield "context", str(message.context)
    for name, texts in (("source", message.id), ("translation", message.string)):
        for text in texts if isinstance(texts, list | tuple) else [texts]:
            yield name, " ".join(str(text or "").split())
