"""Letters by glyph, from the tables of embedded fonts, for PDF text whose character codes are only glyph numbers."""

from __future__ import annotations

import ctypes
import io
import struct
from collections.abc import Mapping

import pypdfium2 as pdfium
import pypdfium2.raw as raw
from fontTools import agl
from fontTools.ttLib import TTFont, TTLibError

_LARGEST = 30_000_000  # bytes of a font that is parsed


class GlyphNames:
    """The letters of the fonts of one page. Caches the fonts."""

    def __init__(self, text: pdfium.PdfTextPage) -> None:
        self._text = text
        self._fonts: dict[int, Mapping[int, str]] = {}

    def letter(self, at: int, code: int) -> str:
        """The letter of character `at` on the page, whose glyph number is `code`. Empty if the font names no letter for
        it."""
        item = raw.FPDFText_GetTextObject(self._text, at)
        font = raw.FPDFTextObj_GetFont(item) if item else None
        key = ctypes.cast(font, ctypes.c_void_p).value if font else None
        if key is None:
            return ""
        letters = self._fonts.get(key)
        if letters is None:
            letters = self._fonts[key] = _letters_of(_data(font))
        return letters.get(code, "")


def _data(font: raw.FPDF_FONT) -> bytes:
    size = ctypes.c_size_t()
    if not raw.FPDFFont_GetIsEmbedded(font) or not raw.FPDFFont_GetFontData(font, None, 0, size):
        return b""
    if not 0 < size.value <= _LARGEST:
        return b""
    buffer = (ctypes.c_uint8 * size.value)()
    return bytes(buffer) if raw.FPDFFont_GetFontData(font, buffer, size.value, size) else b""


def _letters_of(data: bytes) -> Mapping[int, str]:
    """Glyph number → letter. Empty for damaged fonts and fonts without a character table or glyph names."""
    if not data:
        return {}
    try:
        with TTFont(io.BytesIO(data), lazy=True) as font:
            letters = {
                font.getGlyphID(name): chr(code) for code, name in sorted((font.getBestCmap() or {}).items())[::-1]
            }
            if not letters:
                letters = {at: agl.toUnicode(name) for at, name in enumerate(font.getGlyphOrder())}
            return letters
    except (
        TTLibError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        AssertionError,
        OverflowError,
        struct.error,
    ):
        return {}
