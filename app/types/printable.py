"""Text of documents and people, made harmless for terminals and files."""

from __future__ import annotations

import re

# Control characters, which a terminal obeys, without tab and line feed.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# They turn the characters after them around: a name that shows `fdp.exe` as `exe.pdf`.
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with control characters replaced by U+FFFD, and without marks that change the direction of others."""
    return _DIRECTIONS.sub("", _CONTROLS.sub("\ufffd", text))
