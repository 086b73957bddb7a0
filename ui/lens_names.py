"""What lenses are called on the pages. Those that people saved have their own names; those that come with the product
have one in every language."""

from __future__ import annotations

from app.search.lenses import STARTERS
from ui.language import _, later

NO_LENS, OWN_WORDS = later("No lens"), later("Own words")
_TRANSLATED = {NO_LENS, OWN_WORDS, *(text for lens in STARTERS for text in (lens.name, lens.note))}


def shown_lens(text: str) -> str:
    """Its name, or its note."""
    return _(text) if text in _TRANSLATED else text
