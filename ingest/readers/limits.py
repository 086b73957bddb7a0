"""Limits beyond which a reader refuses a document, and limits on the process that parses it."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import DocumentError, ServerLimitError

MEGABYTE = 1_000_000
# Of a title or a value of metadata, which the index stores with every passage: a page may name an author of megabytes.
LONGEST_VALUE = 2_000
MOST_VALUES = 64


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one document. Exceeding one raises DocumentError, except `max_recognized_pages`."""

    max_bytes: int = 100 * MEGABYTE
    max_expanded_bytes: int = 200 * MEGABYTE  # unpacked size of an archive; Office files are archives, too
    max_pages: int = 5_000
    max_characters: int = 20_000_000  # of extracted text
    max_members: int = 10_000  # files of an archive, messages of a mailbox, attachments of a message
    max_recognized_pages: int = 1_000  # pages for text recognition (OCR); 0: none
    max_nesting: int = 2  # a message in a zip has depth 1, its attachment depth 2


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of the child process for one document: wall time, CPU time, and memory added by parsing."""

    wall_s: float = 300
    page_s: float = 60  # extra wall and CPU time per page with text recognition
    cpu_s: int = 200
    memory_bytes: int = 1_000 * MEGABYTE
    idle_memory_bytes: int = 400 * MEGABYTE  # a child that holds more between documents is replaced
    max_documents: int = 1_000  # after which a child is replaced


DEFAULT_LIMITS = ReadLimits()
DEFAULT_PROCESS_LIMITS = ProcessLimits()
# For rendering a page that a user is waiting for.
PAGE_PROCESS_LIMITS = ProcessLimits(wall_s=20, cpu_s=15, memory_bytes=600 * MEGABYTE)


def check_size(byte_count: int, limits: ReadLimits) -> None:
    if byte_count > limits.max_bytes:
        raise ServerLimitError(
            f"This document has {byte_count / MEGABYTE:,.1f} MB; the limit is {limits.max_bytes / MEGABYTE:,.1f} MB. "
            "Split it into parts, or raise GIRCSE_MAX_DOCUMENT_MB."
        )
    if not byte_count:
        raise DocumentError("This document is empty: it has 0 bytes. Check that it was saved or uploaded whole.")


def check_nesting(container: str, limits: ReadLimits) -> None:
    """Raises DocumentError for a container within more containers than the limit."""
    if limits.max_nesting < 0:
        raise DocumentError(f"This {container} is nested too deeply in archives. Unpack it and add its files.")


def unpacks_to_more(container: str, limits: ReadLimits) -> ServerLimitError:
    return ServerLimitError(
        f"This {container} unpacks to more than {limits.max_expanded_bytes / MEGABYTE:,.0f} MB, which is the limit. "
        "Unpack it and add its files, or raise GIRCSE_MAX_UNPACKED_MB."
    )


class TooLongError(ServerLimitError):
    """The text has more characters than the limit."""


def check_length(characters: int, limits: ReadLimits) -> None:
    """Raises TooLongError beyond the limit."""
    if characters > limits.max_characters:
        raise TooLongError(
            f"The text of this document is longer than {limits.max_characters:,} characters. Split it into parts, "
            "or raise GIRCSE_MAX_DOCUMENT_CHARACTERS."
        )
