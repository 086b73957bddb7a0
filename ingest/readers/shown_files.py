"""Files of other formats within an Office file that shows them as a part of its text: inserted ones (Word's altChunk)
and embedded documents, workbooks and presentations, of which a page shows a picture."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

from app.errors import DocumentError
from app.types.left_out import left_out
from app.types.texts import ExtractedText
from ingest.readers.containers import COMPOUND, open_compound_file
from ingest.readers.content_types import detect
from ingest.readers.errors import parser_errors
from ingest.readers.limits import ReadLimits, TooLongError, check_length
from ingest.readers.media_types import DOC, DOCX, ODP, ODS, ODT, PPT, PPTX, XLS, XLSX
from ingest.readers.members import ReadMember
from ingest.readers.opc import Package

# Suffix → media type of files that Word inserts.
_INSERTED = dict.fromkeys((".htm", ".html", ".xhtml"), "text/html") | {".txt": "text/plain", ".rtf": "application/rtf"}
_INSERTED |= dict.fromkeys((".mht", ".mhtml"), "message/rfc822")
_EMBEDDED = frozenset((DOC, DOCX, ODP, ODS, ODT, PPT, PPTX, XLS, XLSX))
# Streams of a compound file that hold a file of today's formats.
PACKAGES = ("Package", "EmbeddedOdf", "package_stream")


class Host(Protocol):
    """A document with files in it. Notes about what is not read go to `left_out`."""

    left_out: list[str]

    def read(self, part: str) -> bytes:
        """The file of this name. Raises an error of `parser_errors`."""
        ...


class _Parsed(NamedTuple):
    text: str
    note: str  # about what the file itself leaves out; empty for nothing


class ShownFiles:
    """The texts of files that documents show, each parsed once, however often and by however many attempts it is asked
    for. `within` begins an attempt to read the document."""

    def __init__(self, limits: ReadLimits, read_member: ReadMember) -> None:
        self._limits = limits
        self._read_member = read_member
        self._parsed: dict[str, _Parsed | None] = {}
        self._too_long: dict[str, int] = {}  # by file: characters that were left, and for which its text was too long
        self._host: Host | None = None
        self._noted: set[str] = set()
        self._left = 0  # characters that may still be returned

    @property
    def has_any(self) -> bool:
        """Whether the text of a file was returned."""
        return any(self._parsed.values())

    def refuse_too_long(self) -> None:
        """Raises TooLongError if a file is longer than the whole limit."""
        if max(self._too_long.values(), default=0) >= self._limits.max_characters:
            check_length(self._limits.max_characters + 1, self._limits)

    def within(self, host: Host, characters: int) -> ShownFiles:
        """Itself, for files of `host`, of which it returns at most so many characters."""
        self._host, self._left, self._noted = host, characters, set()
        return self

    def text(self, part: str) -> str | None:
        """The text of a file; None if it cannot be parsed, is nested too deeply, or is too long beside those before it.
        Notes what the file itself leaves out."""
        assert self._host is not None, "`within` was not called"
        if part not in self._parsed:
            # A text longer than what is left would be parsed for nothing.
            if self._left <= self._too_long.get(part, 0):
                return None
            try:
                self._parsed[part] = self._read(self._host, part)
            except TooLongError:  # perhaps not where more is left
                self._too_long[part] = self._left
                return None
        parsed = self._parsed[part]
        if parsed is None or len(parsed.text) > self._left:
            return None
        self._left -= len(parsed.text)
        if parsed.note and part not in self._noted:
            self._noted.add(part)
            self._host.left_out.append(parsed.note)
        return parsed.text

    def _read(self, host: Host, part: str) -> _Parsed | None:
        """What is read of a file. Raises TooLongError."""
        try:
            data, limits = host.read(part), replace(self._limits, max_characters=self._left)
            media_type = _INSERTED.get(posixpath.splitext(part)[1].lower())
            if media_type is None:
                data = _embedded(data)
                media_type = detect(io.BytesIO(data), uri=part, declared="")
                limits = replace(limits, max_nesting=limits.max_nesting - 1)
                if media_type not in _EMBEDDED or limits.max_nesting < 0:
                    return None
            extracted = self._read_member(data, uri=part, media_type=media_type, limits=limits)
        except TooLongError:
            raise
        except parser_errors():  # includes refusals
            return None
        missing = left_out(extracted.metadata)
        return _Parsed(extracted.text, f"{part}: {' '.join(missing)}" if missing else "")


def read_package(
    data: bytes, limits: ReadLimits, read_member: ReadMember, read: Callable[[Package, ShownFiles], ExtractedText]
) -> ExtractedText:
    """What `read` makes of the package and its files, whose texts are left out where they make it too long."""
    files = ShownFiles(limits, read_member)

    def attempt(characters: int) -> ExtractedText:
        package = Package(data)
        return read(package, files.within(package, characters))

    return fitted(attempt, files, limits)


def fitted(attempt: Callable[[int], ExtractedText], files: ShownFiles, limits: ReadLimits) -> ExtractedText:
    """The document with as many of its files as the limit of characters allows. `attempt` reads it with at most so many
    characters of `files`. Raises DocumentError if it is too long without any."""
    try:
        found = attempt(limits.max_characters)
    except TooLongError as error:
        if not files.has_any:
            raise
        alone = _alone(attempt)
        left = limits.max_characters - (len(alone.text) if alone else 0)
        for characters in (left, left // 2):
            with suppress(TooLongError):
                return attempt(characters)
        if alone is None:
            raise error
        return alone
    except DocumentError:  # it has no text of its own
        files.refuse_too_long()
        raise
    if not found.text.strip():
        files.refuse_too_long()
    return found


def _alone(attempt: Callable[[int], ExtractedText]) -> ExtractedText | None:
    """The document without its files; None if it has no text of its own. Raises TooLongError."""
    try:
        return attempt(0)
    except TooLongError:
        raise
    except DocumentError:
        return None


def _embedded(data: bytes) -> bytes:
    """The file in an embedded object: itself, or the package that its compound file holds."""
    if not data.startswith(COMPOUND):
        return data
    with open_compound_file(io.BytesIO(data)) as compound:
        name = next(filter(compound.exists, PACKAGES), "")
        return compound.openstream(name).read() if name else data
