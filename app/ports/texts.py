"""What ingestion needs to read texts and to cut them, as protocols. Reader processes import this: no numpy here."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol

from app.types.texts import ExtractedText, Findings, Span, TextPart


class TextSink(Protocol):
    """Takes the text of a document, part by part in order."""

    def write(self, part: TextPart) -> None: ...
    def clear(self) -> None:
        """Forgets all parts: the reader starts over."""
        ...

    def advance(self, share: float) -> None:
        """So much of the document is read, 0 to 1: told before what takes long, as the recognition of a page."""
        ...


class Reader(Protocol):
    """Extracts text. Raises DocumentError with a reason that a person can act on, or FileNotFoundError.

    What was written into the sink is of no use then.
    """

    def __call__(self, path: Path, *, uri: str, media_type: str, into: TextSink) -> Findings: ...


class FormatDetector(Protocol):
    """The media type of what stands in a file, by its content, its name and what its sender declared. Raises
    DocumentError, in one line, for what no reader reads. Leaves the stream at its begin."""

    def __call__(self, stream: BinaryIO, *, uri: str, declared: str) -> str: ...


class TokenCounter(Protocol):
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character [start, end) of every model token of `text`, without special tokens, in order."""
        ...


class Splitter(Protocol):
    def __call__(self, document: ExtractedText) -> list[Span]: ...
