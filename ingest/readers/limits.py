"""How much a reader takes on before it refuses a document, and how much the process that parses it may use."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import DocumentError

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadLimits:
    max_bytes: int = 100 * MEGABYTE
    max_expanded_bytes: int = 200 * MEGABYTE  # what an archive, an Office file too, holds once unpacked
    max_pages: int = 5_000
    max_characters: int = 20_000_000  # of extracted text
    max_members: int = 10_000  # files of an archive, messages of a mailbox, attachments of a message
    max_recognized_pages: int = 1_000  # whose text is recognised from their picture; 0: of none
    max_nesting: int = 2  # a message in a zip is 1 deep, its attachment 2


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Wall time, CPU time and memory are those of one document; memory counts what parsing adds."""

    wall_s: float = 300
    page_s: float = 60  # more of wall and CPU time for each page whose text is recognised
    cpu_s: int = 200
    memory_bytes: int = 1_000 * MEGABYTE
    idle_memory_bytes: int = 400 * MEGABYTE  # a child that holds more between two documents gives way to a fresh one
    max_documents: int = 1_000  # that one child reads


DEFAULT_LIMITS = ReadLimits()
DEFAULT_PROCESS_LIMITS = ProcessLimits()
# Of a page that somebody waits for.
PAGE_PROCESS_LIMITS = ProcessLimits(wall_s=20, cpu_s=15, memory_bytes=600 * MEGABYTE)


def check_size(byte_count: int, limits: ReadLimits) -> None:
    if byte_count > limits.max_bytes:
        raise DocumentError(
            f"This document has {byte_count / MEGABYTE:,.1f} MB; the limit is {limits.max_bytes / MEGABYTE:,.1f} MB. "
            "Split it into parts, or raise GIRCSE_MAX_DOCUMENT_MB."
        )
    if not byte_count:
        raise DocumentError("This document is empty: it has 0 bytes. Check that it was saved or uploaded whole.")


def check_length(characters: int, limits: ReadLimits) -> None:
    if characters > limits.max_characters:
        raise DocumentError(
            f"The text of this document is longer than {limits.max_characters:,} characters. Split it into parts, "
            "or raise GIRCSE_MAX_DOCUMENT_CHARACTERS."
        )
