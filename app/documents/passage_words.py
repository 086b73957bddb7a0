"""Finds the words of a passage on its page.

Two programs produce the text of a document and the words of its page; they split words, join lines and order columns
differently. Letters and digits mostly agree, so only these are compared.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

_SEED = 8  # letters that must agree for a match to begin
_GAP = 2 * _SEED  # letters that may differ between two matches of the same stretch


def words_of_passage(words: Sequence[str], passage: str, *, before: str = "") -> tuple[int, ...]:
    """Indices of the `words` that belong to `passage`, sorted.

    `before` is the page's text before the passage, if known: if the passage occurs several times, its length decides.
    """
    owners: list[int] = []
    letters: list[str] = []
    for number, word in enumerate(words):
        own = _letters(word)
        letters.append(own)
        owners.extend([number] * len(own))
    page, sought = "".join(letters), _letters(passage)
    if not sought:
        return ()
    expected = len(_letters(before))
    if places := list(_places(page, sought)):
        at = min(places, key=lambda place: abs(place - expected))
        marked = _between(owners, [(at, at + len(sought))])
    else:
        marked = _between(owners, _matches(page, sought, expected))
    return tuple(sorted(marked | _signs(letters, marked, passage.strip())))


def _letters(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return plain if plain.isascii() and plain.isalnum() else "".join(each for each in plain if each.isalnum())


def _places(page: str, sought: str) -> Iterator[int]:
    at = page.find(sought)
    while at >= 0:
        yield at
        at = page.find(sought, at + 1)


def _matches(page: str, sought: str, expected: int) -> list[tuple[int, int]]:
    """Ranges of the page's letters that also occur in the passage. Each is searched near the end of the last one."""
    size = min(_SEED, max(3, len(sought) // 2))
    starts: dict[str, list[int]] = defaultdict(list)
    for at in range(len(page) - size + 1):
        starts[page[at : at + size]].append(at)
    found: list[tuple[int, int]] = []
    at, near, last = 0, expected, 0  # `last`: where in the passage the match before ended
    while at + size <= len(sought):
        candidates = starts.get(sought[at : at + size])
        if not candidates:
            at += 1
            continue
        begin = _nearest(candidates, near)
        end = begin + size
        while end < len(page) and at + end - begin < len(sought) and page[end] == sought[at + end - begin]:
            end += 1
        goes_on = bool(found) and 0 <= begin - found[-1][1] <= _GAP and at - last <= _GAP
        found.append((found.pop()[0] if goes_on else begin, end))
        at += end - begin
        if len(found) == 1 and last == 0 and at - (end - begin) <= _GAP:  # include differing letters at the start
            found[0] = (max(0, found[0][0] - (at - (end - begin))), end)
        near, last = end, at
    if found and len(sought) - last <= _GAP:  # and at the end
        found[-1] = (found[-1][0], min(len(page), found[-1][1] + len(sought) - last))
    return found


def _nearest(places: Sequence[int], near: int) -> int:
    after = bisect_left(places, near)
    return min(places[max(0, after - 1) : after + 1], key=lambda place: abs(place - near))


def _between(owners: Sequence[int], stretches: Sequence[tuple[int, int]]) -> set[int]:
    return {owners[at] for begin, end in stretches for at in range(begin, end)}


def _signs(letters: Sequence[str], marked: set[int], passage: str) -> set[int]:
    """Words of punctuation only that belong to the marked words.

    These are the ones between marked words, and at either end if the passage begins or ends with punctuation.
    """
    found: set[int] = set()
    for number in marked:
        for step, has_sign in ((1, not passage[-1:].isalnum()), (-1, not passage[:1].isalnum())):
            at = number + step
            while 0 <= at < len(letters) and not letters[at]:
                at += step
            if at in marked or has_sign:
                found.update(range(number + step, at, step))
    return found
