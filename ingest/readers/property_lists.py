"""Property lists of Apple, in XML or binary: their records. A web archive of Safari is one: its page is read."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from datetime import datetime
from itertools import chain, count

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import HTML, PROPERTY_LIST
from ingest.readers.members import ReadMember
from ingest.readers.parts import Block, blocks_of
from ingest.readers.payloads import Payloads
from ingest.readers.records import Records
from ingest.readers.skipped import Skipped
from ingest.readers.tables import join_blocks

_PAGE, _FRAMES = "WebMainResource", "WebSubframeArchives"
_MOST_VALUES = 1_000_000  # the same value may stand in many places of a binary list
_DEEPEST_FRAME = 5


def read_property_list(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    try:
        value = plistlib.loads(data)
    except (plistlib.InvalidFileException, OverflowError) as error:
        raise ValueError("It is no property list.") from error
    if isinstance(value, dict) and isinstance(value.get(_PAGE), dict):
        return _read_page(value, limits, read_member)
    skipped, payloads = Skipped("parts"), Payloads()
    written = _Written(skipped).of(value, "")
    text, marks, cells = join_blocks(Records(payloads).of(written, ""), limits)
    about = payloads.skipped.added_to(skipped.added_to({}))
    return ExtractedText(text, "", PROPERTY_LIST, about, marks=marks, cells=cells)


def _read_page(
    archive: Mapping[str, object], limits: ReadLimits, read_member: ReadMember, depth: int = 0
) -> ExtractedText:
    """The page of a web archive, and the pages in its frames. Raises DocumentError if it has no text."""
    resource = archive.get(_PAGE)
    about = resource if isinstance(resource, dict) else {}
    data, kind = about.get("WebResourceData"), about.get("WebResourceMIMEType") or HTML
    charset = about.get("WebResourceTextEncodingName") or ""
    if not isinstance(data, bytes):
        raise DocumentError("This web archive is damaged: it has no page. Save it again.")
    page = read_member(data, uri="", media_type=f"{kind}; charset={charset}" if charset else str(kind), limits=limits)
    frames = archive.get(_FRAMES)
    blocks: list[Block] = []
    for frame in frames if isinstance(frames, list) and depth < _DEEPEST_FRAME else ():
        if isinstance(frame, dict) and isinstance(frame.get(_PAGE), dict):
            blocks += blocks_of(_read_page(frame, limits, read_member, depth + 1).text)
    more = join_blocks(chain([Block("")], blocks), limits).text if blocks else ""
    return ExtractedText(page.text + more, page.title, PROPERTY_LIST, page.metadata, marks=page.marks, cells=page.cells)


class _Written:
    """Values as texts. Notes bytes, which are left out."""

    def __init__(self, skipped: Skipped) -> None:
        self._skipped = skipped
        self._number = count()

    def of(self, value: object, name: str) -> object:
        if next(self._number) > _MOST_VALUES:
            raise ValueError("It has too many values.")
        if isinstance(value, Mapping):
            return {str(key): self.of(each, str(key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self.of(each, name) for each in value]
        if isinstance(value, bytes):
            if value:
                self._skipped.note(name or "Line 1", "It holds bytes that are no text.")
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return value.isoformat(" ") if isinstance(value, datetime) else str(value)
