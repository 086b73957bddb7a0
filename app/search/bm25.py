"""Makes sparse vectors of texts: the product of two, times the index's IDF, is BM25. Knows no model and no index.

Terms are words of any script, lower-cased, without accents, English ones stemmed. Scripts without spaces give bigrams.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import Stemmer

K1 = 1.5  # saturation: the lower, the less a repeated word counts
B = 0.75  # length normalisation: 0 ignores the length of a chunk, 1 applies it in full
AVERAGE_WORDS = 90  # per chunk; a constant, so that a chunk's vector never depends on other chunks
MAX_WORD_CHARACTERS = 64  # longer words are cut
MAX_DOCUMENT_TERMS = 8192
MAX_QUERY_TERMS = 1024

# Han, kana, hangul, bopomofo, Thai, Lao, Burmese, Khmer: scripts that do not separate words by spaces.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\U00020000-\U000323af"
)
_RUN = re.compile(rf"([{_UNSPACED}]+)|[^{_UNSPACED}\s]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_ENGLISH_WORD = re.compile(r"[a-z]{3,}")
_CONTRACTION = re.compile(r"(?<=\w)['’](?:s|t|re|ve|ll|d|m)\b")  # John's, isn't
_HIDDEN_ASCII = dict.fromkeys([*range(0x09), *range(0x0E, 0x1C), 0x7F])
# Letters that NFKD does not decompose.
_LETTERS = {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ŧ": "t", "ı": "i"}
_MOST_FOLDED = 1 << 16  # cached characters
_TATWEEL = "\u0640"  # Arabic letter stretcher, purely typographic


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A BM25 vector of a text or a query: weights by term id. `indices` are ascending and unique; `values` are
    positive."""

    indices: tuple[int, ...]
    values: tuple[float, ...]

    def __bool__(self) -> bool:
        return bool(self.indices)


def document_vector(text: str) -> SparseVector:
    """The document's part of BM25: saturated term counts, normalised by the text's length."""
    counts, length = _counted(text)
    terms: dict[str, int] = {}
    for word, count in counts.items():
        stem = _stem(word)
        terms[stem] = terms.get(stem, 0) + count
    norm = K1 * (1 - B + B * length / AVERAGE_WORDS)
    kept = islice(terms.items(), MAX_DOCUMENT_TERMS)
    return _vector((term, count * (K1 + 1) / (count + norm)) for term, count in kept)


def _counted(text: str) -> tuple[Counter[str], int]:
    """Counts each word, and the text's length in words."""
    if text.isascii():
        words = _ascii_words(text)
        return Counter(words), len(words)
    counts: Counter[str] = Counter()
    length = 0
    for word, is_unspaced in _words(text):
        if is_unspaced:
            pairs = _pairs(word)
            counts.update(pairs)
            counts.update(word)  # single characters too, for queries of one character
            length += max(1, len(pairs))
        else:
            counts[word] += 1
            length += 1
    return counts, length


def query_vector(text: str) -> SparseVector:
    """Weight 1 for every distinct term; empty if the text has none."""
    terms: dict[str, None] = {}
    for word, is_unspaced in dict.fromkeys(_words(text)):  # a whole passage as query repeats many words
        terms.update(dict.fromkeys((_pairs(word) or [word]) if is_unspaced else [_stem(word)]))
    return _vector((term, 1.0) for term in islice(terms, MAX_QUERY_TERMS))


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yields (word, is_unspaced) in order; an unspaced "word" is a run of characters of a script without spaces."""
    if text.isascii():
        for word in _ascii_words(text):
            yield word, False
        return
    plain = _CONTRACTION.sub("", unicodedata.normalize("NFKC", text).casefold())
    decomposed = unicodedata.normalize("NFKD", plain).translate(_FOLDED)
    for match in _RUN.finditer(unicodedata.normalize("NFC", decomposed)):
        unspaced = match.group(1)
        yield (unspaced, True) if unspaced else (match.group()[:MAX_WORD_CHARACTERS], False)


def _ascii_words(text: str) -> list[str]:
    plain = _CONTRACTION.sub("", text.lower().translate(_HIDDEN_ASCII))
    return [word[:MAX_WORD_CHARACTERS] for word in _ASCII_WORD.findall(plain)]


class _Stemmers(threading.local):
    """One stemmer per thread: they are not thread-safe."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english")


def _stem(word: str) -> str:
    return _STEMMERS.english.stemWord(word) if _ENGLISH_WORD.fullmatch(word) else word


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)]


def _vector(weights: Iterable[tuple[str, float]]) -> SparseVector:
    by_id: dict[int, float] = {}
    for term, weight in weights:
        term_id = zlib.crc32(term.encode())
        by_id[term_id] = by_id.get(term_id, 0.0) + weight
    indices = tuple(sorted(by_id))
    return SparseVector(indices, tuple(max(round(by_id[term_id], 4), 1e-4) for term_id in indices))


class _Folding(dict[int, str]):
    """Table for `str.translate` of decomposed, case-folded text. Computes entries on first use."""

    def __missing__(self, code: int) -> str:
        folded = _fold(chr(code))
        if len(self) < _MOST_FOLDED:
            self[code] = folded
        return folded


def _fold(character: str) -> str:
    """Maps a character to letters, a mark or a digit, to a space if it separates words, or to "" if it is an accent or
    invisible."""
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.digit(character))
    if category.startswith(("L", "N")):
        return "" if character == _TATWEEL else _LETTERS.get(character, character)
    if category.startswith("M"):
        return character if _is_part_of_word(character, category) else ""
    is_hidden = category in ("Cc", "Cf") and not character.isspace()
    return "" if is_hidden else " "


def _is_part_of_word(mark: str, category: str) -> bool:
    """True for Indic and South East Asian vowel signs and kana voicing marks; False for accents and vowel points."""
    combining = unicodedata.combining(mark)
    is_accent = combining == 1 or 10 <= combining <= 36 or combining >= 200
    is_variant = category == "Me" or unicodedata.name(mark, "").startswith("VARIATION SELECTOR")
    return not is_accent and not is_variant


_FOLDED = _Folding()
_STEMMERS = _Stemmers()
