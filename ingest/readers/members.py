"""Members of containers (archives, messages, mailboxes): parsed by their own readers, within common limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from app.errors import DocumentError
from app.types.documents import Metadata
from app.types.left_out import left_out
from app.types.texts import Cell, ExtractedText, Mark
from ingest.readers.limits import ReadLimits, check_length, check_nesting, unpacks_to_more
from ingest.readers.parts import moved
from ingest.readers.skipped import Skipped
from ingest.readers.text import clean_text

_MAX_NAME = 200
_BREAKS = len("# \n\n\n\n")  # around the name and the text of a member
_LOWEST_LEVEL = 6  # deepest level of headings


class ReadMember(Protocol):
    def __call__(self, data: bytes, *, uri: str, media_type: str | None, limits: ReadLimits) -> ExtractedText: ...


class Members:
    """Joins the texts of a container's members, each under a heading. An unreadable member is skipped and noted, as is
    one whose text would make that of a container with a text of its own too long: a message.

    Too many members, too many bytes or too deep nesting refuse the whole container, which may be a zip bomb.
    """

    def __init__(
        self, container: str, kind: str, limits: ReadLimits, read_member: ReadMember, *, level: int = 1
    ) -> None:
        """`container` and `kind` name it and its members in messages. `level` is that of the headings over members.

        Raises DocumentError if the container is nested too deeply.
        """
        check_nesting(container, limits)
        self._container = container
        self._kind = kind
        self._limits = limits
        self._read_member = read_member
        self._bytes_left = limits.max_expanded_bytes
        self._seen = 0
        self._level = level
        self._paragraphs: list[str] = []
        self._marks: list[Mark] = []
        self._cells: list[Cell] = []
        self._characters = 0
        self._has_own_text = False
        self._skipped = Skipped(kind)
        self._partly = Skipped("parts")  # skipped parts of members that were parsed
        self.read_count = 0

    def write(self, paragraph: str, *, level: int | None = None) -> None:
        """Adds a paragraph of the container's own; with `level`, a heading. Raises DocumentError when the text becomes
        too long."""
        self._has_own_text = True
        self._write(paragraph, level=level)

    def _write(self, paragraph: str, *, level: int | None = None) -> None:
        paragraph = clean_text(paragraph)
        if level is not None:
            self._marks.append(Mark(self._characters, self._characters + len(paragraph), level))
        self._characters += len(paragraph) + 2
        check_length(self._characters, self._limits)
        self._paragraphs.append(paragraph)

    def add(self, name: str, load: Callable[[int], bytes], *, media_type: str | None = None) -> None:
        """Parses a member and adds its text under a heading.

        `load(n)` returns the first n bytes of the member, or all of it. It is called with one byte more than allowed,
        so that an excess shows. Raises DocumentError beyond the limits on members and bytes.
        """
        name = _shown(name)
        self.count(name)
        data = load(self._bytes_left + 1)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise unpacks_to_more(self._container, self._limits)
        limits = replace(
            self._limits, max_nesting=self._limits.max_nesting - 1, max_expanded_bytes=max(1, self._bytes_left)
        )
        try:
            extracted = self._read_member(data, uri=name, media_type=media_type, limits=limits)
        except DocumentError as error:
            self.skip(name, str(error))
            return
        length = len(name) + len(extracted.text) + _BREAKS
        if self._has_own_text and self._characters + length > self._limits.max_characters:
            self.skip(name, "Its text is too long beside the texts before it.")
            return
        self.read_count += 1
        if missing := left_out(extracted.metadata):
            self._partly.note(name, " ".join(missing))
        self._write(f"# {name}", level=self._level)
        begin = self._characters
        self._write(extracted.text)
        self._marks += (
            Mark(
                begin + mark.start,
                begin + mark.end,
                min(mark.level + self._level, _LOWEST_LEVEL) if mark.is_heading else mark.level,
            )
            for mark in extracted.marks
        )
        self._cells += (moved(cell, begin) for cell in extracted.cells)

    def count(self, name: str) -> None:
        self._seen += 1
        if self._seen > self._limits.max_members:
            raise DocumentError(
                f"This {self._container} holds more than {self._limits.max_members:,} files, which is the limit. "
                "Unpack it and add its files."
            )

    def skip(self, name: str, reason: str) -> None:
        what, _, _ = reason.partition(". ")  # without the advice, which would fill the list
        self._skipped.note(_shown(name), what)

    @property
    def has_any(self) -> bool:
        return self._seen > 0

    @property
    def text(self) -> str:
        return "\n\n".join(self._paragraphs)

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._marks)

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(self._cells)

    @property
    def metadata(self) -> Metadata:
        """The number of parsed members, and notes about the skipped ones."""
        return self._partly.added_to({self._kind: self.read_count, **self._skipped.metadata})

    def require_one(self) -> None:
        if not self.read_count:
            raise DocumentError(f"This {self._container} holds no file that can be read.{self.reasons}")

    @property
    def reasons(self) -> str:
        """Why members were skipped, on lines of their own; empty if none was."""
        return f"\n{self._skipped.reasons}" if self._skipped else ""


def _shown(name: str) -> str:
    """The name of a member, which is untrusted: on one line, printable, without path traversal."""
    parts = [part for part in " ".join(name.replace("\\", "/").split()).split("/") if part not in ("", ".", "..")]
    return "/".join("".join(filter(str.isprintable, part)) for part in parts)[-_MAX_NAME:] or "unnamed"
