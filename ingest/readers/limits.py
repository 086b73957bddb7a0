"""How much a reader takes on before it refuses a document."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import DocumentError

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadLimits:
    max_bytes: int = 100 * MEGABYTE
    max_expanded_bytes: int = 200 * MEGABYTE  # what a docx or xlsx archive holds once unpacked
    max_pages: int = 5_000
    max_characters: int = 20_000_000  # of extracted text


DEFAULT_LIMITS = ReadLimits()


def check_length(characters: int, limits: ReadLimits) -> None:
    if characters > limits.max_characters:
        raise DocumentError(
            f"The text of this document is longer than {limits.max_characters:,} characters. Split it into parts."
        )
