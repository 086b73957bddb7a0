"""Ports of parsing and splitting texts. Parser processes import this module, so no numpy here."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol

from app.types.texts import ExtractedText, Findings, Span, TextPart


class TextSink(Protocol):
    """Receives the text of a document, part by part in order."""

    def write(self, part: TextPart) -> None: ...
    def clear(self) -> None:
        """Discard all parts: the parser starts over."""
        ...

    def advance(self, share: float) -> None:
        """Report progress, 0 to 1. Parsers call it before slow steps, such as the OCR of a page."""
        ...


class Reader(Protocol):
    """Extracts text. Raises DocumentError with a reason that a person can act on, or FileNotFoundError.

    After an error, discard what the sink received.
    """

    def __call__(self, path: Path, *, uri: str, media_type: str, into: TextSink) -> Findings: ...


class FormatDetector(Protocol):
    """The media type of a file, by content, name and declared type. Raises DocumentError with one line for an
    unsupported format. Leaves the stream at its start.
    """

    def __call__(self, stream: BinaryIO, *, uri: str, declared: str) -> str: ...


class TokenCounter(Protocol):
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range [start, end) of every model token of `text`, without special tokens, in order."""
        ...


class Splitter(Protocol):
    def __call__(self, document: ExtractedText) -> list[Span]: ...
