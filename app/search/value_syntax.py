"""Parses lens values as users write them: `angry, disappointed, pleased = happy, delighted`."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import InputError
from app.types.documents import require_text
from app.types.values import MAX_VALUES, MIN_VALUES, OTHER, LensValue

MAX_PHRASES = 1_000  # names and synonyms of all values together
MAX_PHRASE_CHARACTERS = 200


def split_values(text: str) -> list[str]:
    """Splits a text into values at line breaks, else at `;`, else at `·`, else at commas. `=` begins synonyms.

    >>> split_values("Africa, Asia")
    ['Africa', 'Asia']
    >>> split_values("pleased = happy, delighted; angry")
    ['pleased = happy, delighted', 'angry']
    """
    separator = next((mark for mark in ("\n", ";", "·", ",") if mark in text), ",")
    return [part.strip() for part in text.split(separator) if part.strip()]


def join_values(written: Sequence[str]) -> str:
    """Inverse of `split_values`. No value may contain a line break.

    >>> join_values(["Africa", "Asia"])
    'Africa, Asia'
    >>> join_values(["pleased = happy, delighted", "angry"])
    'pleased = happy, delighted; angry'
    """
    held = "".join(written)
    separator = ", " if not any(mark in held for mark in ",;·") else "; " if ";" not in held else "\n"
    return separator.join(written)


def parse_values(written: Sequence[str]) -> tuple[LensValue, ...]:
    """Parses values in order; () for no values. Raises InputError, which names the value and the limit."""
    values = tuple(_parse_value(text) for text in written)
    if not values:
        return ()
    if not MIN_VALUES <= len(values) <= MAX_VALUES:
        raise InputError(f"A lens has {MIN_VALUES} to {MAX_VALUES} values, not {len(values)}.")
    names = [value.name.casefold() for value in values]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"The value {twice!r} is given twice: leave one out.")
    seen: dict[str, str] = {}
    for value in values:
        for phrase in value.phrases:
            if (other := seen.setdefault(phrase.casefold(), value.name)) != value.name:
                raise InputError(f"{phrase!r} belongs to both {other!r} and {value.name!r}: give it to one of them.")
    if sum(len(value.phrases) for value in values) > MAX_PHRASES:
        raise InputError(f"The values have more than {MAX_PHRASES:,} names and synonyms in all: leave synonyms out.")
    return values


def _parse_value(written: str) -> LensValue:
    require_text(written, name="value")
    name, _, rest = written.partition("=")
    phrases = [" ".join(phrase.split()) for phrase in (name, *rest.split(","))]
    name, others = phrases[0], phrases[1:]
    synonyms = tuple(dict.fromkeys(phrase for phrase in others if phrase and phrase != name))
    if not name:
        raise InputError(f"A value has no name: {written[:40]!r}. Write it as `name` or as `name = synonym, synonym`.")
    if name.casefold() == OTHER:
        raise InputError(f"{OTHER!r} is built in, for texts that fit no value: leave it out.")
    for phrase in (name, *synonyms):
        if len(phrase) > MAX_PHRASE_CHARACTERS:
            raise InputError(
                f"The value {phrase[:40]!r}… has {len(phrase):,} characters; at most {MAX_PHRASE_CHARACTERS} are "
                "allowed."
            )
    return LensValue(name, synonyms)
