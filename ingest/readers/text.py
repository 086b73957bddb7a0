"""Plain text and Markdown: finds the encoding, refuses what is not text, and cleans what databases cannot store."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from app.errors import DocumentError
from app.types import ExtractedText
from ingest.readers.limits import ReadLimits

# UTF-32 first: its little-endian mark begins with the one of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a zip archive or an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old or encrypted Office document"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
)
_CONTROLS = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]")
_MAX_CONTROL_SHARE = 0.05
_MAX_NUL_SHARE = 0.2
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LINE_ENDS = re.compile(r"\r\n?")
_MARKDOWN_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_HOW_TO_MEND = "Save it as UTF-8 text, or give it the suffix of its real format."


def read_text(data: bytes, limits: ReadLimits) -> ExtractedText:
    return ExtractedText(text=clean_text(decode_text(data)), title="", media_type="text/plain")


def read_markdown(data: bytes, limits: ReadLimits) -> ExtractedText:
    text = clean_text(decode_text(data))
    heading = _MARKDOWN_HEADING.search(text)
    return ExtractedText(text=text, title=heading.group(1) if heading else "", media_type="text/markdown")


def decode_text(data: bytes, *, declared: str | None = None) -> str:
    """Decodes by byte order mark, as UTF-8, by the encoding the document declares, or by the likeliest one."""
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            raise DocumentError(f"This is not text: it begins like {kind}. {_HOW_TO_MEND}")
    text = _decode(data, declared)
    nul_share = text.count("\0") / max(1, len(text))
    control_share = len(_CONTROLS.findall(text)) / max(1, len(text))
    if nul_share > _MAX_NUL_SHARE or control_share > _MAX_CONTROL_SHARE:
        share = max(nul_share, control_share)
        raise DocumentError(f"This is not text: {share:.0%} of its characters are control characters. {_HOW_TO_MEND}")
    return text


def clean_text(text: str) -> str:
    """Makes `text` valid UTF-8 that PostgreSQL stores, with \\n as the only line end."""
    return _LINE_ENDS.sub("\n", _LONE_SURROGATES.sub("\ufffd", text.replace("\0", "")))


def _decode(data: bytes, declared: str | None) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8", errors="surrogatepass")
    except UnicodeDecodeError:
        pass
    if declared is not None:
        try:
            return data.decode(declared, errors="replace")
        except (LookupError, UnicodeError):
            pass  # no such encoding: go on as if nothing was declared
    # More whole multi-byte characters than broken ones: damaged UTF-8, not another encoding.
    damaged = data.decode("utf-8", errors="replace")
    broken = damaged.count("\ufffd")
    if len(damaged.encode("utf-8", errors="replace")) - len(damaged) > 4 * broken:
        return damaged
    likeliest = from_bytes(data).best()
    if likeliest is None:
        raise DocumentError(f"This is not text in any known encoding. {_HOW_TO_MEND}")
    return str(likeliest)
