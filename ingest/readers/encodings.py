"""Detects the encoding of a text: byte order mark, declaration, valid UTF-8, else a guess that prefers windows-1252.

Labels mean what they mean in browsers (WHATWG Encoding Standard): iso-8859-1 is windows-1252.
"""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO

import webencodings
from chardetng_py import EncodingDetector

from app.types.documents import MetadataValue

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python's codecs of the standard names lack characters that browsers decode; these supersets have them.
_WIDER_CODECS = {"shift_jis": "cp932", "gbk": "gb18030", "euc-kr": "cp949", "big5": "big5hkscs"}
# Labels that say nothing: programs declare ASCII for texts that they have not examined.
_NO_DECLARATION = re.compile(
    r"(?:us-?)?ascii|ansi_x3\.4-19\d\d|iso-?ir-6|unknown(?:-8bit)?|binary|8bit|none|x-user-defined|replacement"
)
_NO_TEXT_CODECS = {"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "mbcs", "oem"}
BLOCK_BYTES = 1_000_000
_SAMPLE_BYTES = 4_000_000  # that the guess looks at
_MAX_BROKEN_SHARE = 0.05  # of the characters beyond ASCII; a declaration that breaks more is wrong
_FEWEST_NULS = 0.05  # of the bytes at even or odd positions, in UTF-16 of other scripts
_LEAST_NULS = 4
_CONTROL_BYTES = re.compile(rb"[\x01-\x08\x0e-\x1f]")  # the first bytes of many scripts, such as 04 of Cyrillic
_FEWEST_CONTROLS = 0.15
_REPEATED_NULS = 0.4  # of the bytes at even or odd positions: in UTF-16 of Latin script every second byte is NUL
# Candidates for text in a Latin script; the first of equally plausible ones wins.
_LATIN_CODECS = ("cp1252", "cp850", "mac_roman", "iso8859-15", "cp852")
# Encodings of systems before the web are less likely. ISO-8859-4, which hardly any file has, only loses ties.
_HANDICAPS = {"cp850": 0.2, "mac_roman": 0.25, "cp852": 0.21, "iso8859-4": 0.01}
# Grave, acute, diaeresis, ring: a letter with one of these can be a word, such as è and å.
_WORDS_BY_THEMSELVES = {"\u0300", "\u0301", "\u0308", "\u030a"}
_MOST_RUNS = 5_000  # runs of characters beyond ASCII that are examined
_LONGEST_RUN = 40
_LETTERS_WITHIN = 100_000
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LATIN_LETTERS = re.compile(r"[^\W\d_\u0370-\U0010ffff]")
# Control characters; ƒ, which umlauts of DOS turn into; ¤, which the € of ISO-8859-15 turns into.
_UNUSUAL = re.compile(r"[\x80-\x9f\u0192\ufffd¤]")
_PORTUGUESE = re.compile(r"õe[ms]?\b", re.IGNORECASE)  # `opiniões`; no word of Hungarian ends so with ő
_BETWEEN_LETTERS = "’'·\xad–—´"
_ORDINALS = "ªº"
# Least share of letters beyond ASCII in a language that needs another code page than 1252. English and Dutch prose with
# a few loan words has fewer.
_FEWEST_BEYOND_ASCII = 0.015
_MOST_BEYOND_ASCII = 0.6  # of the letters of a text in Latin script
_FEWEST_LETTERS = 20  # beyond ASCII; with fewer nothing contradicts a declaration or a guess
_LESS_PLAUSIBLE = 0.15  # than the guess: a wrong declaration
_MISTAKEN_FOR_MAC = ("cp1252", "cp1251", "koi8-u", "cp866", "iso8859-5")  # what Firefox guesses of Cyrillic of old Macs
# Bytes of UTF-16 that no 8-bit text has; East Asian characters.
_NO_TEXT_BYTES, _FEWEST_NO_TEXT, _NO_TEXT_SHARE = re.compile(rb"[\x00-\x06\x0e-\x19]"), 2, 0.01
_EAST_ASIAN = re.compile(r"[\n\r\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]")
_EAST_ASIAN_SHARE = 0.85
_SWITCHES = (b"\x1b$B", b"\x1b$@")  # to Japanese, in ISO-2022-JP


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding. `codec` and `errors` are arguments of `bytes.decode`; `name` is the label of the WHATWG standard."""

    name: str
    codec: str
    errors: str = "replace"
    is_guessed: bool = False

    @property
    def metadata(self) -> dict[str, MetadataValue]:
        """Metadata for the document. Empty for UTF-8."""
        if self.name == "utf-8":
            return {}
        guessed: dict[str, MetadataValue] = {"encoding_guessed": True} if self.is_guessed else {}
        return {"encoding": self.name, **guessed}


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    """A stray byte among UTF-8, as programs paste it; the rest of a cut character is lost."""
    assert isinstance(error, UnicodeDecodeError)
    stray = error.object[error.start : error.end]
    is_letter = len(stray) == 1 and stray != b"\xff"  # ÿ; rather what a damaged disk gives
    return stray.decode("cp1252", "replace") if is_letter else "\ufffd", error.end


codecs.register_error("as_windows_1252", _as_windows_1252)
_UTF8 = Encoding("utf-8", "utf-8", "surrogatepass")
_DAMAGED_UTF8 = replace(_UTF8, errors="as_windows_1252")


def encoding_of(stream: BinaryIO, *declared: str | None) -> Encoding:
    """Detects the encoding of a stream.

    `declared` are labels, the most reliable first. Skips labels that are unknown or contradict the bytes.
    Reads the whole stream in blocks and rewinds it.
    """
    try:
        return _encoding_of(stream, declared)
    finally:
        stream.seek(0)


def labelled(label: str) -> Encoding | None:
    """The encoding of a label. None for unknown labels and for ASCII, which says nothing."""
    label = label.strip().strip("\"'").lower()
    if not label or _NO_DECLARATION.fullmatch(label):
        return None
    known = webencodings.lookup(label)
    if known is not None:
        return Encoding(known.name, _WIDER_CODECS.get(known.name, known.codec_info.name))
    try:
        codec = codecs.lookup(label)
    except LookupError:
        return None
    is_text = getattr(codec, "_is_text_encoding", True) and codec.name not in _NO_TEXT_CODECS
    return Encoding(codec.name, codec.name) if is_text else None


def decode_stream(stream: BinaryIO, encoding: Encoding) -> Iterator[str]:
    """Yields the decoded blocks of the stream, from its start."""
    decoder = codecs.getincrementaldecoder(encoding.codec)(encoding.errors)
    stream.seek(0)
    while block := stream.read(BLOCK_BYTES):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _encoding_of(stream: BinaryIO, declared: tuple[str | None, ...]) -> Encoding:
    head = stream.read(BLOCK_BYTES)
    for mark, codec in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return Encoding(codec.removesuffix("-sig"), codec)
    if unmarked := unmarked_utf16(head):
        return unmarked
    japanese = labelled("iso-2022-jp") if any(switch in head for switch in _SWITCHES) else None
    if japanese and _fits(stream, japanese):
        return replace(japanese, is_guessed="iso-2022-jp" not in map(_name, declared))
    failure_at = _utf8_failure(stream)
    for label in declared:
        encoding = labelled(label) if label else None
        # Hardly any text in a single-byte encoding is valid UTF-8.
        if encoding is None or (failure_at is None and _is_single_byte(encoding)):
            continue
        if encoding.name == "utf-8":
            if failure_at is None:
                break
        elif _fits(stream, encoding) and not _is_contradicted(stream, encoding):
            return encoding
    if failure_at is None:
        return _UTF8
    if _is_damaged_utf8(stream):
        return _DAMAGED_UTF8
    return _guess(_sample(stream, failure_at))


def _name(label: str | None) -> str:
    encoding = labelled(label) if label else None
    return encoding.name if encoding else ""


def _is_single_byte(encoding: Encoding) -> bool:
    text = bytes(range(0x80, 0x100)).decode(encoding.codec, "replace")
    return len(text) == 0x80 > 2 * text.count("\ufffd")  # in UTF-7 all are broken


def _is_contradicted(stream: BinaryIO, encoding: Encoding) -> bool:
    """Whether a text in a single-byte encoding is written so oddly that the guess is better: programs declare the
    encoding of their own country for every text."""
    if not _is_single_byte(encoding):
        return False
    sample = _sample(stream, 0)
    text, guessed = sample.decode(encoding.codec, "replace"), _guess(sample)
    if guessed.codec == encoding.codec or _letters_beyond_ascii(text) < _FEWEST_LETTERS:
        return False
    if _is_latin(text) and _share_beyond_ascii(text) > _MOST_BEYOND_ASCII:
        return True
    other = sample.decode(guessed.codec, "replace")
    declared_is, other_is = _plausibility(text), _plausibility(other)
    is_swapped = declared_is < other_is and _share_of_capitals(text) > 0.5 > _share_of_capitals(other)
    return is_swapped or declared_is + _LESS_PLAUSIBLE < other_is  # swapped: as between KOI8-R and windows-1251


def unmarked_utf16(head: bytes) -> Encoding | None:
    """UTF-16 without a byte order mark; None for other bytes.

    In Latin script every second byte is NUL. In other alphabets blanks and line ends have one, all at even or all at
    odd positions, and the text is made of characters that exist. East Asian texts may have neither.
    """
    if len(head) < 8:
        return None
    even, odd = (head[place::2].count(0) * 2 / len(head) for place in (0, 1))
    name = "utf-16-be" if even > odd else "utf-16-le"
    is_latin = max(even, odd) >= _REPEATED_NULS and min(even, odd) <= 0.05
    is_other = max(even, odd) >= _FEWEST_NULS and not min(even, odd) and _is_written(head, name)
    if not is_latin and not is_other:
        name = next((each for each in ("utf-16-le", "utf-16-be") if _is_east_asian(head, each)), "")
    return Encoding(name.replace("16-", "16"), name) if name else None


def _is_east_asian(head: bytes, codec: str) -> bool:
    """Whether nearly all characters are of East Asian scripts, and some bytes are in no 8-bit text."""
    if len(_NO_TEXT_BYTES.findall(head)) < max(_FEWEST_NO_TEXT, _NO_TEXT_SHARE * len(head)):
        return False
    text = codecs.getincrementaldecoder(codec)("replace").decode(head[:_LETTERS_WITHIN])
    return len(_EAST_ASIAN.findall(text)) >= _EAST_ASIAN_SHARE * len(text) > 0


def _is_written(head: bytes, codec: str) -> bool:
    """Whether the bytes are characters of a text, but for a last one that is cut, and no 8-bit text with stray NULs."""
    if head.count(0) < _LEAST_NULS or len(_CONTROL_BYTES.findall(head)) < _FEWEST_CONTROLS * len(head):
        return False
    text = codecs.getincrementaldecoder(codec)("replace").decode(head[:_LETTERS_WITHIN])
    kinds = [unicodedata.category(character)[0] for character in text if character not in "\r\n\t"]
    return kinds.count("C") + text.count("\ufffd") <= _MAX_BROKEN_SHARE * len(kinds) and kinds.count("L") * 2 > len(
        kinds
    )


def _fits(stream: BinaryIO, encoding: Encoding) -> bool:
    broken = other = 0
    try:
        for text in decode_stream(stream, encoding):
            broken += text.count("\ufffd")
            other += sum(len(match[0]) for match in _BEYOND_ASCII.finditer(text))
    except UnicodeError:  # UTF-16 without its mark
        return False
    return broken <= _MAX_BROKEN_SHARE * other


def _utf8_failure(stream: BinaryIO) -> int | None:
    """The approximate byte position of the first error in UTF-8; None if all bytes are valid."""
    try:
        for _ in decode_stream(stream, _UTF8):
            pass
    except UnicodeDecodeError:
        return max(0, stream.tell() - BLOCK_BYTES)
    return None


def _is_damaged_utf8(stream: BinaryIO) -> bool:
    """Whether whole multi-byte characters outnumber broken ones: then it is damaged UTF-8, not another encoding."""
    broken = excess = 0
    for text in decode_stream(stream, Encoding("utf-8", "utf-8")):
        signs = Counter("".join(_BEYOND_ASCII.findall(text)))
        # Two-byte encodings of East Asia give characters that do not exist.
        for sign, count in signs.items():
            is_broken = sign == "\ufffd" or unicodedata.category(sign) == "Cn"
            broken += count * is_broken
            excess += 0 if is_broken else count * (len(sign.encode("utf-8")) - 1)
    return excess >= 2 * broken


def _sample(stream: BinaryIO, failure_at: int) -> bytes:
    """Bytes from the start and from the first error. Cut at line ends, because a character may take several bytes."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if size <= _SAMPLE_BYTES:
        return stream.read()
    head = stream.read(_SAMPLE_BYTES // 2)
    if failure_at > len(head):
        head = head[: head.rfind(b"\n") + 1]
        stream.seek(failure_at)
        stream.readline()
    rest = stream.read(_SAMPLE_BYTES // 2)
    return head + (rest[: rest.rfind(b"\n") + 1] or rest)


def _guess(sample: bytes) -> Encoding:
    """Guesses as Firefox does. In Latin script, picks the codec whose letters and signs stand in the most plausible
    places."""
    detector = EncodingDetector()
    detector.feed(sample, last=True)
    guessed = labelled(detector.guess(tld=None, allow_utf8=False))
    codecs_tried = dict.fromkeys((guessed.codec if guessed else "cp1252", *_LATIN_CODECS))
    texts = {codec: sample.decode(codec, "replace") for codec in codecs_tried}
    best = next(iter(texts))
    if best in _MISTAKEN_FOR_MAC and _is_mac_cyrillic(sample, texts[best]):
        return Encoding("x-mac-cyrillic", "mac-cyrillic", is_guessed=True)
    if _is_latin(texts[best]):
        if _has_few_beyond_ascii(texts[best]):  # too few to identify a rarer code page: windows-1252 wins ties
            texts = {codec: texts[codec] for codec in (*_LATIN_CODECS, *texts)}
        best = max(texts, key=lambda codec: _plausibility(texts[codec]) - _HANDICAPS.get(codec, 0))
        if best == "cp1252" and _is_hungarian(texts[best]):
            best = "cp1250"
    known = labelled(best)
    name = guessed.name if guessed and guessed.codec == best else known.name if known else best
    return Encoding(name, best, is_guessed=True)


def _is_mac_cyrillic(sample: bytes, guessed: str) -> bool:
    """Whether it is Cyrillic of old Macs, which Firefox does not guess. Small letters are as in windows-1251."""
    text = sample.decode("mac-cyrillic")
    letters = list(filter(str.isalpha, text[:_LETTERS_WITHIN]))
    cyrillic = sum("\u0400" <= letter <= "\u04ff" for letter in letters)
    is_cyrillic = cyrillic >= max(_FEWEST_LETTERS, _MOST_BEYOND_ASCII * len(letters))
    return is_cyrillic and _plausibility(text) > _plausibility(guessed) + 0.01


def _letters_beyond_ascii(text: str) -> int:
    return sum(letter.isalpha() for match in _BEYOND_ASCII.finditer(text[:_LETTERS_WITHIN]) for letter in match[0])


def _share_of_capitals(text: str) -> float:
    letters = "".join(_BEYOND_ASCII.findall(text[:_LETTERS_WITHIN]))
    return sum(map(str.isupper, letters)) / max(1, len(letters))


def _share_beyond_ascii(text: str) -> float:
    return _letters_beyond_ascii(text) / max(1, sum(map(str.isalpha, text[:_LETTERS_WITHIN])))


def _is_latin(text: str) -> bool:
    """Whether at least half of its letters are Latin. True without any letter."""
    text = text[:_LETTERS_WITHIN]
    return 2 * len(_LATIN_LETTERS.findall(text)) >= sum(map(str.isalpha, text))


def _is_hungarian(text: str) -> bool:
    """Whether a text in windows-1252 has õ and û besides no other letters beyond ASCII than Hungarian has: they are ő
    and ű in windows-1250, and the others are equal in both."""
    text = text[:_LETTERS_WITHIN]
    if 2 * len(_PORTUGUESE.findall(text)) >= text.lower().count("õ") > 0:
        return False
    letters = set(filter(str.isalpha, "".join(_BEYOND_ASCII.findall(text)).lower()))
    return bool(letters & set("õû")) and letters <= set("áéíóöõúüû") and len(letters & set("áéíóöúü")) >= 4


def _has_few_beyond_ascii(text: str) -> bool:
    return _share_beyond_ascii(text) < _FEWEST_BEYOND_ASCII


def _plausibility(text: str) -> float:
    """The share of characters beyond ASCII in a plausible place: letters beside letters, signs not between two
    letters."""
    plausible = count = 0
    for run in islice(_BEYOND_ASCII.finditer(text), _MOST_RUNS):
        before, after = text[max(0, run.start() - 1) : run.start()], text[run.end() : run.end() + 1]
        near = before + run[0] + after
        for place, character in enumerate(run[0][:_LONGEST_RUN], start=len(before)):
            count += 1
            neighbours = near[max(0, place - 1) : place], near[place + 1 : place + 2]
            plausible += _is_plausible(character, *neighbours)
    return plausible / max(1, count)


def _is_plausible(character: str, before: str, after: str) -> bool:
    if _UNUSUAL.match(character):
        return False
    if character in _ORDINALS and (before.isdecimal() or before == "."):
        return True
    if character.isalpha():
        if character.isupper() and before.isalpha() and before.islower():
            return False
        is_word = unicodedata.normalize("NFD", character)[1:] in _WORDS_BY_THEMSELVES
        return is_word or before.isalpha() or after.isalpha()
    return not (before.isalpha() and after.isalpha()) or character in _BETWEEN_LETTERS
