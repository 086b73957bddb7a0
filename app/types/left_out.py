"""What was left out of a document, in words: readers count it in the metadata, as `skipped_lines` or `unread_pages`."""

from __future__ import annotations

from collections.abc import Mapping

SKIPPED, SKIPPED_PARTS, UNREAD_PAGES = "skipped", "skipped_", "unread_pages"


def left_out(metadata: Mapping[str, str | int | float | bool]) -> list[str]:
    """A line for each kind of parts with their count, the places and reasons that are known, and pages. Empty where
    all was read."""
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
    return f"Could not be read: {count} {kind}."


def _page_notes(pages: str | float | bool) -> str:
    return f"Pages that could not be read: {pages}."


def _is_count(value: str | float | bool) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
