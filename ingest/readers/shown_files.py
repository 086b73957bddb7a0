"""Files of other formats within an Office file that shows them as a part of its text: inserted ones (Word's altChunk)
and embedded documents, workbooks and presentations, of which a page shows a picture."""

from __future__ import annotations

import io
import posixpath
from dataclasses import replace

from app.types.left_out import left_out
from ingest.readers.containers import compound_file
from ingest.readers.content_types import detect
from ingest.readers.errors import parser_errors
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import DOC, DOCX, ODP, ODS, ODT, PPT, PPTX, XLS, XLSX
from ingest.readers.members import ReadMember
from ingest.readers.opc import Package

# Suffix → media type of files that Word inserts.
_INSERTED = dict.fromkeys((".htm", ".html", ".xhtml"), "text/html") | {".txt": "text/plain", ".rtf": "application/rtf"}
_INSERTED |= dict.fromkeys((".mht", ".mhtml"), "message/rfc822")
_EMBEDDED = frozenset((DOC, DOCX, ODP, ODS, ODT, PPT, PPTX, XLS, XLSX))
_COMPOUND = b"\xd0\xcf\x11\xe0"
_PACKAGE = "Package"  # the stream of a compound file that holds a file of today's formats


class ShownFiles:
    """The texts of files that `package` shows. A file is parsed once, however often the document shows it."""

    def __init__(self, package: Package, limits: ReadLimits, read_member: ReadMember) -> None:
        self._package = package
        self._limits = limits
        self._read_member = read_member
        self._texts: dict[str, str | None] = {}
        self._characters = 0  # of all texts that were returned

    def text(self, part: str) -> str | None:
        """The text of a file; None if it cannot be parsed, is nested too deeply, or is too long beside those before it.
        Notes what the file itself leaves out."""
        if part not in self._texts:
            self._texts[part] = self._read(part)
        text = self._texts[part]
        if text is None or self._characters + len(text) > self._limits.max_characters:
            return None
        self._characters += len(text)
        return text

    def _read(self, part: str) -> str | None:
        try:
            left = self._limits.max_characters - self._characters  # a longer text would be parsed for nothing
            data, limits = self._package.read(part), replace(self._limits, max_characters=left)
            media_type = _INSERTED.get(posixpath.splitext(part)[1].lower())
            if media_type is None:
                data = _embedded(data)
                media_type = detect(io.BytesIO(data), uri=part, declared="")
                limits = replace(limits, max_nesting=limits.max_nesting - 1)
                if media_type not in _EMBEDDED or limits.max_nesting < 0:
                    return None
            extracted = self._read_member(data, uri=part, media_type=media_type, limits=limits)
        except parser_errors():  # includes refusals
            return None
        if missing := left_out(extracted.metadata):
            self._package.left_out.append(f"{part}: {' '.join(missing)}")
        return extracted.text


def _embedded(data: bytes) -> bytes:
    """The file in an embedded object: itself, or the package that its compound file holds."""
    if not data.startswith(_COMPOUND):
        return data
    with compound_file(io.BytesIO(data)) as compound:
        return compound.openstream(_PACKAGE).read() if compound.exists(_PACKAGE) else data
