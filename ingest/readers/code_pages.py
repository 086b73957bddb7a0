"""Code pages of Windows and Apple as the codecs of Python."""

from __future__ import annotations

import codecs

DEFAULT = "cp1252"
# Those of Apple, and the two of Excel 5, which Python does not know by number.
_OTHERS = {10000: "mac_roman", 10006: "mac_greek", 10007: "mac_cyrillic", 10029: "mac_latin2", 10079: "mac_iceland"}
_OTHERS |= {10081: "mac_turkish", 0x8000: "mac_roman", 0x8001: DEFAULT, 65001: "utf-8"}
_OTHERS |= {28590 + part: f"iso8859-{part}" for part in range(2, 17)} | {20127: "ascii", 20866: "koi8_r"}
_OTHERS |= {21866: "koi8_u", 50220: "iso2022_jp", 51932: "euc_jp", 51949: "euc_kr", 54936: "gb18030"}


def codec_of_code_page(number: int) -> str:
    """The name of the codec for the code page with this number; windows-1252 if it is unknown."""
    return known_codec(_OTHERS.get(number, f"cp{number}"))


def known_codec(name: str) -> str:
    """The name that Python gives the codec; windows-1252 if it is unknown."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return DEFAULT
