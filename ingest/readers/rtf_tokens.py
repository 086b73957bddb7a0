"""The tokens of RTF 1.9.1: control words, groups, and undecoded text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ingest.readers.code_pages import codec_of_code_page, known_codec

_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?[0-9]{1,10})? ?"
    rb"|\\'(?P<hex>[0-9a-fA-F]{2})"
    rb"|\\(?P<sign>[^a-zA-Z])"
    rb"|(?P<brace>[{}])"
    rb"|(?P<text>[^\\{}\r\n]+)",
    re.DOTALL,
)
# \fcharset → code page. The symbol charset has no letters, so it is missing.
_CODE_PAGES = {77: "mac_roman", 128: "cp932", 129: "cp949", 130: "cp1361", 134: "cp936", 136: "cp950", 161: "cp1253"}
_CODE_PAGES |= {162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251"}
_CODE_PAGES |= {222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp437"}
_CHARACTER_SETS = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}


class Token(NamedTuple):
    kind: str  # "{", "}", "word", "sign" or "bytes"
    word: str = ""
    number: int | None = None
    data: bytes = b""


def tokens(data: bytes) -> Iterator[Token]:
    r"""Yields the tokens. Skips binary data (\bin) and line ends."""
    at, end = 0, len(data)
    while at < end:
        match = _TOKEN.match(data, at)
        if match is None:  # a line end, or a last backslash
            at += 1
            continue
        at = match.end()
        kind = match.lastgroup
        if kind in ("word", "number"):
            word, number = match["word"].decode("ascii"), match["number"]
            value = None if number is None else int(number)
            if word == "bin":
                at += max(value or 0, 0)
                continue
            yield Token("word", word, value)
        elif kind == "brace":
            yield Token(match["brace"].decode("ascii"))
        elif kind == "hex":
            yield Token("bytes", data=bytes.fromhex(match["hex"].decode("ascii")))
        elif kind == "sign":
            yield Token("sign", match["sign"].decode("latin-1"))
        else:
            yield Token("bytes", "plain", data=match["text"])


def code_page_of_font(number: int) -> str | None:
    return _CODE_PAGES.get(number)


def code_page(word: str, number: int | None) -> str:
    """The code page of the document from \\ansi, \\mac, \\pc, \\pca or \\ansicpgN; windows-1252 if unknown."""
    name = _CHARACTER_SETS.get(word)
    return known_codec(name) if name else codec_of_code_page(number or 1252)
