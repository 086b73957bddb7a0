"""Translates messages of the core, which only speaks English.

Matches a finished message against the texts in the code, so it also works for messages that a worker stored with a
document or that another process sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from operator import ne
from string import Formatter

from ui.language import ENGLISH, current_language, read_catalog

FOLDERS = ("app/", "ingest/")
KINDS_FILE = "ingest/readers/kinds.py"  # names of formats: too short to be recognised as whole messages
KIND_FIELDS = ("kind", "container", "what")
NOTES_FIELD = "reasons"  # lines of a place and a reason each
MAX_CHARS = 4_000  # longer ones stay as they are
_MOST_COLONS = 20  # of a note; more are in a name
_NUMBERED = re.compile(r"[A-Za-z]+ [\d–,]+(?:, [A-Za-z]+ [\d–,]+)*")
_SENTENCE_END = re.compile(r"(?<=[.)]) (?=[^ ])")


def translate_message(message: str) -> str:
    """Translates a message and any messages inserted into it, such as a reason. Unknown messages stay unchanged."""
    language = current_language()
    if language == ENGLISH or not message or len(message) > MAX_CHARS:
        return message
    return _translated(message, _messages(language))


def _translated(message: str, known: list[tuple[re.Pattern[str], str]]) -> str:
    for pattern, translation in known:
        found = pattern.fullmatch(message)
        if found is not None:
            values = {name: _value(name, value) for name, value in found.groupdict().items() if value != message}
            return translation.format(**values)
    return message


def _value(name: str, value: str) -> str:
    if name in KIND_FIELDS:
        return _kinds(current_language()).get(value, value)
    return "\n".join(map(_note, value.split("\n"))) if name == NOTES_FIELD else translate_message(value)


def translate_note(note: str) -> str:
    """Translates a line about what was left out of a document: a message, or a place and a reason."""
    if current_language() == ENGLISH or len(note) > MAX_CHARS:
        return note
    translated = translate_message(note)
    return _note(note) if translated == note else translated


def _note(line: str) -> str:
    """A line `place: reason` with its reason translated, which may be the first sentence of a message, or several
    notes. The place may have colons, too."""
    language = current_language()
    for end in list(re.finditer(": ", line))[:_MOST_COLONS]:
        if translated := _reason(line[end.end() :], language):
            return f"{_place(line[: end.start()])}: {translated}"
    return line


def _reason(reason: str, language: str) -> str:
    """The reason of a note translated: several notes, a message, or the first sentence of one; empty if unknown."""
    notes = _SENTENCE_END.split(reason, _MOST_COLONS)
    if len(notes) > 1:
        translated = list(map(translate_note, notes))
        if all(map(ne, notes, translated)):
            return " ".join(translated)
    for known in (_messages(language), _first_sentences(language)):
        if (whole := _translated(reason, known)) != reason:
            return whole
    return ""


def _place(place: str) -> str:
    """A place with its words translated: `Characters 3–9, page 2`."""
    if not _NUMBERED.fullmatch(place):
        return place
    kinds = _kinds(current_language())
    return re.sub(r"\w+(?= )", lambda word: kinds.get(word[0], word[0]), place)


@cache
def _kinds(language: str) -> dict[str, str]:
    return {
        str(each.id): str(each.string)
        for each in read_catalog(language)
        if any(path == KINDS_FILE for path, _line in each.locations)
    }


@cache
def _messages(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Messages of a language as patterns, the longest fixed text first."""
    texts = {
        str(each.id): str(each.string)
        for each in read_catalog(language)
        if any(path.startswith(FOLDERS) and path != KINDS_FILE for path, _line in each.locations)
    }
    return _patterns(texts)


def _patterns(texts: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    ordered = sorted(texts, key=lambda text: -sum(len(literal) for literal, *_ in Formatter().parse(text)))
    return [(_pattern(text), texts[text]) for text in ordered]


@cache
def _first_sentences(language: str) -> list[tuple[re.Pattern[str], str]]:
    """The first sentences of messages, without the advice after them."""
    firsts: dict[str, str] = {}
    for each in read_catalog(language):
        text, translation = (str(part).partition(". ")[0] for part in (each.id, each.string))
        is_message = any(path.startswith(FOLDERS) and path != KINDS_FILE for path, _line in each.locations)
        if is_message and text != str(each.id) and _fields(translation) <= _fields(text):
            firsts[text] = translation
    return _patterns(firsts)


def _fields(text: str) -> set[str]:
    return {field for _, field, *_ in Formatter().parse(text) if field}


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
