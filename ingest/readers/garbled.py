"""Detects garbled text from PDF fonts without a character map, in which most letters are replaced by others."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_FEWEST = 12  # characters: fewer prove nothing
_NOT_READ = "\ufffd"
_NOT_READ_SHARE = 0.02
_SIGN_WITHIN = re.compile(r"[^\W\d_][^\w\s.'’‑()\[\]/=-]+(?=[^\W\d_])")  # a sign between letters: 5(&20
_DIGIT_WITHIN = re.compile(r"[^\W\d_]\d+(?=[^\W\d_])")
_WITHIN_SHARE = 0.1
_MOST_SCRIPTS = 0.15  # of the letters may be of a script other than the main one
_VOWELS = frozenset("aeiouyáéíóúàèìòùâêîôûäëïöüãõåæøœąęıěůőű")
_FEWEST_VOWELS, _MOST_VOWELS = 0.2, 0.65  # of Latin letters, in any language
_FEWEST_LETTERS = 30  # fewer may be abbreviations, without vowels
_LEAST_LETTERS = 0.3  # of the characters other than digits
_MANY_DIGITS = 0.25  # of the characters: labels of a chart
_LONGEST_WORD = 35


def is_garbled(words: Sequence[str]) -> bool:
    """Whether `words`, all of uncertain letters, are garbled rather than written text."""
    text = " ".join(words)
    signs = [char for char in text if not char.isspace()]
    if len(signs) < _FEWEST or all(char.isdigit() or unicodedata.category(char)[0] in "PS" for char in signs):
        return text.count(_NOT_READ) > _NOT_READ_SHARE * len(signs)
    if text.count(_NOT_READ) > _NOT_READ_SHARE * len(signs):
        return True
    letters = [char for char in signs if char.isalpha()]
    digits = sum(map(str.isdigit, signs))
    if len(letters) < _LEAST_LETTERS * (len(signs) - digits):
        return digits < _MANY_DIGITS * len(signs)
    within = len(_SIGN_WITHIN.findall(text)) + len(_DIGIT_WITHIN.findall(text))
    if within > _WITHIN_SHARE * len(letters):
        return True
    scripts = Counter(_script(char) for char in letters)
    most, count = scripts.most_common(1)[0]
    if count < (1 - _MOST_SCRIPTS) * len(letters) or most == "ipa":
        return True
    if max(map(len, words)) > _LONGEST_WORD:
        return most != "east asian"
    if most != "latin" or len(letters) < _FEWEST_LETTERS:
        return False
    plain = [unicodedata.normalize("NFD", char.lower())[0] for char in letters]
    vowels = sum(char in _VOWELS for char in plain)
    return not _FEWEST_VOWELS <= vowels / len(letters) <= _MOST_VOWELS


def _script(char: str) -> str:
    code = ord(char)
    if code < 0x180 or 0x1E00 <= code < 0x1F00:
        return "latin"
    if code < 0x370:
        return "ipa"  # and rare letters: no language uses them alone
    if 0x3040 <= code < 0xA000 or 0xAC00 <= code < 0xD800 or 0xF900 <= code < 0xFB00 or code > 0x1FFFF:
        return "east asian"
    return f"block {code >> 8}" if code >= 0x600 else f"block {code >> 7}"
