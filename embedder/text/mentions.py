"""Detects which phrases a text mentions: all words of a phrase, with any endings. Needs no model and no torch.

All texts are scanned as one array of letters: splitting each into words with a regular expression takes three times as
long.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

_SHORTEST = 3  # letters; shorter words are ignored
_BEGINNING = 5  # letters that identify a stem; shorter words must match whole: *art* does not match *article*
_MIXER = np.uint64(0x9E3779B97F4A7C15)
PLANES = 0x33500  # code points; none beyond is a letter
_KEPT = 256


def mentions(texts: Sequence[str], phrases: Sequence[str]) -> np.ndarray:
    """Whether each text mentions each phrase: (n, P) bool. Never matches a phrase without a word of three letters."""
    known, words_of = _stems_of_phrases(tuple(phrases))
    words, owners = _stems_of_texts(texts)
    places = np.minimum(np.searchsorted(known, words), max(len(known) - 1, 0))
    is_known = known[places] == words if len(known) else np.zeros(len(words), dtype=bool)
    says = np.zeros((len(texts), len(known)), dtype=np.float32)
    says[owners[is_known], places[is_known]] = 1
    wanted = words_of.sum(axis=0)
    return (says @ words_of == wanted) & (wanted > 0)


@lru_cache(_KEPT)
def _stems_of_phrases(phrases: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The hashed stems of all phrases, ascending (S,), and which phrase has which stem (S, P)."""
    words, owners = _stems_of_texts(phrases)
    known, places = np.unique(words, return_inverse=True)
    words_of = np.zeros((len(known), len(phrases)), dtype=np.float32)
    words_of[places, owners] = 1
    return known, words_of


def _stems_of_texts(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each word's stem and the row of its text, both (W,)."""
    lowered = [text.lower() for text in texts]
    codes = np.frombuffer("\n".join(["", *lowered, ""]).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    is_letter = _letters()[np.minimum(codes, PLANES - 1)]
    # start and end of each word; a line break is at either end
    edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    is_word = ends - starts >= _SHORTEST
    starts, ends = starts[is_word], ends[is_word]
    found = np.zeros(len(starts), dtype=np.uint64)
    for at in range(_BEGINNING):
        places = np.minimum(starts + at, ends)  # past the end of a short word comes a non-letter, which is hashed too
        letters = np.where(starts + at < ends, codes[places], 0).astype(np.uint64)
        found = found * _MIXER + letters  # modulo 2^64; a collision would merge two stems, but none has been seen
    lines = np.cumsum([1, *(len(text) + 1 for text in lowered)])
    return found, np.searchsorted(lines, starts, side="right") - 1


@lru_cache(1)
def _letters() -> np.ndarray:
    """For each code point, whether it is a letter as in the regular expression `[^\\W\\d_]`."""
    return np.array([(each := chr(code)).isalnum() and not each.isdecimal() for code in range(PLANES)])
