"""Messages of the core in the language of the person at hand: the core speaks English, and knows of no other.

A message is recognised by the text that stands in the code, whatever way it came: raised here, stored with a document
by a worker, or sent by another process.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter

from ui.language import ENGLISH, current_language, read_catalog

FOLDERS = ("app/", "ingest/")
MAX_CHARS = 4_000  # longer ones stay as they are


def translate_message(message: str) -> str:
    """As it is where no language file has it. What was filled in may be a message itself, such as a reason."""
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
    """Those with the most text of their own first."""
    texts = {
        str(each.id): str(each.string)
        for each in read_catalog(language)
        if any(path.startswith(FOLDERS) for path, _line in each.locations)
    }
    ordered = sorted(texts, key=lambda text: -sum(len(literal) for literal, *_ in Formatter().parse(text)))
    return [(_pattern(text), texts[text]) for text in ordered]


def _pattern(text: str) -> re.Pattern[str]:
    """Each value ends where what follows it first stands, but for the last one: time grows with the length alone."""
    parts = [(_literal(literal), field) for literal, field, *_ in Formatter().parse(text)]
    pattern = parts[0][0]
    fields = [field for _, field in parts if field]
    for place, field in enumerate(fields):
        after = parts[place + 1][0] if place + 1 < len(parts) else ""
        is_last = place == len(fields) - 1
        pattern += f"(?P<{field}>.*){after}" if is_last else f"(?>(?P<{field}>.*?){after})"
    return re.compile(pattern, re.DOTALL)


def _literal(text: str) -> str:
    """What the code puts into quotes with !r stands in typographic ones in the language files."""
    return re.escape(text).replace("“", "[“\"']").replace("”", "[”\"']")
