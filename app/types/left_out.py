"""Describes the unread parts of a document. Parsers count them in the metadata, as `skipped_lines`, `unread_pages` …"""

from __future__ import annotations

from collections.abc import Mapping

SKIPPED, SKIPPED_PARTS, UNREAD_PAGES = "skipped", "skipped_", "unread_pages"


def left_out(metadata: Mapping[str, str | int | float | bool]) -> list[str]:
    """Returns one line per kind of skipped part with its count, then known places and reasons, then unread pages. Empty
    if everything was read."""
    lines = [
        _part_notes(count, key.removeprefix(SKIPPED_PARTS))
        for key, count in metadata.items()
        if key.startswith(SKIPPED_PARTS) and _is_count(count)
    ]
    if lines and (reasons := metadata.get(SKIPPED)):
        lines += str(reasons).splitlines()
    if pages := metadata.get(UNREAD_PAGES):
        lines.append(_page_notes(pages))
    return lines


def _part_notes(count: str | float | bool, kind: str) -> str:
    kind = kind.removesuffix("s") if count == 1 else kind
    return f"Could not be read: {count} {kind}."


def _page_notes(pages: str | float | bool) -> str:
    return f"Pages that could not be read: {pages}."


def _is_count(value: str | float | bool) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
