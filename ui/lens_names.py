"""Displayed lens names. Built-in lenses are translated; saved lenses keep their name."""

from __future__ import annotations

from app.search.lenses import STARTERS
from ui.language import _, later

NO_LENS, OWN_WORDS = later("No lens"), later("Own words")
_TRANSLATED = {NO_LENS, OWN_WORDS, *(text for lens in STARTERS for text in (lens.name, lens.note))}


def shown_lens(text: str) -> str:
    """Translates the name or note of a built-in lens."""
    return _(text) if text in _TRANSLATED else text
