"""Translates messages of the core, which only speaks English.

Matches a finished message against the texts in the code, so it also works for messages that a worker stored with a
document or that another process sent.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter

from ui.language import ENGLISH, current_language, read_catalog

FOLDERS = ("app/", "ingest/")
MAX_CHARS = 4_000  # longer ones stay as they are


def translate_message(message: str) -> str:
    """Translates a message and any messages inserted into it, such as a reason. Unknown messages stay unchanged."""
    language = current_language()
    if language == ENGLISH or not message or len(message) > MAX_CHARS:
        return message
    for pattern, translation in _messages(language):
        found = pattern.fullmatch(message)
        if found is not None:
            values = {name: translate_message(value) for name, value in found.groupdict().items() if value != message}
            return translation.format(**values)
    return message


@cache
def _messages(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Messages of a language as patterns, the longest fixed text first."""
    texts = {
        str(each.id): str(each.string)
        for each in read_catalog(language)
        if any(path.startswith(FOLDERS) for path, _line in each.locations)
    }
    ordered = sorted(texts, key=lambda text: -sum(len(literal) for literal, *_ in Formatter().parse(text)))
    return [(_pattern(text), texts[text]) for text in ordered]


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern in which each value ends at the first occurrence of the next text, so matching takes linear time."""
    parts = [(_literal(literal), field) for literal, field, *_ in Formatter().parse(text)]
    pattern = parts[0][0]
    fields = [field for _, field in parts if field]
    for place, field in enumerate(fields):
        after = parts[place + 1][0] if place + 1 < len(parts) else ""
        is_last = place == len(fields) - 1
        pattern += f"(?P<{field}>.*){after}" if is_last else f"(?>(?P<{field}>.*?){after})"
    return re.compile(pattern, re.DOTALL)


def _literal(text: str) -> str:
    """Accepts quotes from `!r` where the language files have typographic quotes."""
    return re.escape(text).replace("“", "[“\"']").replace("”", "[”\"']")
