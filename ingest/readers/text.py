"""Plain text and Markdown: finds the encoding, refuses what is not text, and cleans what databases cannot store.

Texts of any length: they are read block by block, and only an unknown encoding is told from a sample.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO

from charset_normalizer import from_bytes

from app.errors import DocumentError
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import PART_CHARACTERS, Opened, Piece

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
_MARKDOWN_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_UNDERLINED_HEADING = re.compile(r"""^(\S.*)\n([=\-~^"'*+#`.:_])\2{2,}[ \t]*$""", re.MULTILINE)
_BLOCK_BYTES = 1_000_000
_SAMPLE_BYTES = 4_000_000  # of a text in an unknown encoding; a shorter one is looked at whole
_HOW_TO_MEND = "Save it as UTF-8 text, or give it the suffix of its real format."


def read_text(stream: BinaryIO, limits: ReadLimits) -> Opened:
    return Opened("", {}, map(Piece, decoded(stream)))


def read_markdown(stream: BinaryIO, limits: ReadLimits) -> Opened:
    return _titled_by(_MARKDOWN_HEADING, stream)


def read_restructured_text(stream: BinaryIO, limits: ReadLimits) -> Opened:
    return _titled_by(_UNDERLINED_HEADING, stream)


def _titled_by(heading: re.Pattern[str], stream: BinaryIO) -> Opened:
    """Its title is the first heading, looked for in the first part."""
    texts = decoded(stream)
    head: list[str] = []
    while sum(map(len, head)) < PART_CHARACTERS and (text := next(texts, None)) is not None:
        head.append(text)
    found = heading.search("".join(head))
    return Opened(found.group(1) if found else "", {}, map(Piece, chain(head, texts)))


def decoded(stream: BinaryIO) -> Iterator[str]:
    """The clean text in pieces. What is no text may be refused with the last one."""
    encoding, errors = _codec_of(stream, None)
    return clean_pieces(_checked(_decoded(stream, encoding, errors)))


def lines_of(texts: Iterable[str]) -> Iterator[str]:
    """The lines, with their ends, of a text that comes in pieces."""
    held: list[str] = []
    for text in texts:
        first, *others = text.split("\n")
        held.append(first)
        for other in others:
            yield "".join(held) + "\n"
            held = [other]
    if rest := "".join(held):
        yield rest


def decode_text(data: bytes, *, declared: str | None = None) -> str:
    """Decodes by byte order mark, as UTF-8, by the encoding the document declares, or by the likeliest one."""
    return "".join(_checked([data.decode(*_codec_of(io.BytesIO(data), declared))]))


def clean_text(text: str) -> str:
    """Makes `text` valid UTF-8 that PostgreSQL stores, with \\n as the only line end."""
    return "".join(clean_pieces([text]))


def clean_pieces(texts: Iterable[str]) -> Iterator[str]:
    newlines = io.IncrementalNewlineDecoder(None, translate=True)  # a line end may lie between two pieces
    for text in texts:
        text = text.replace("\0", "")
        if not text.isascii():
            text = _LONE_SURROGATES.sub("\ufffd", text)
        yield newlines.decode(text)
    yield newlines.decode("", final=True)


def _checked(texts: Iterable[str]) -> Iterator[str]:
    length = nuls = controls = 0
    for text in texts:
        length += len(text)
        nuls += text.count("\0")
        controls += sum(1 for _ in _CONTROLS.finditer(text))
        yield text
    share = max(nuls / max(1, length), controls / max(1, length))
    if nuls > _MAX_NUL_SHARE * length or controls > _MAX_CONTROL_SHARE * length:
        raise DocumentError(f"This is not text: {share:.0%} of its characters are control characters. {_HOW_TO_MEND}")


def _decoded(stream: BinaryIO, encoding: str, errors: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    stream.seek(0)
    while block := stream.read(_BLOCK_BYTES):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _codec_of(stream: BinaryIO, declared: str | None) -> tuple[str, str]:
    """The encoding, and what to do with bytes that are not valid in it."""
    head = stream.read(_BLOCK_BYTES)
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            raise DocumentError(f"This is not text: it begins like {kind}. {_HOW_TO_MEND}")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, "replace"
    try:
        for _ in _decoded(stream, "utf-8", "surrogatepass"):
            pass
    except UnicodeDecodeError:
        failure_at = max(0, stream.tell() - _BLOCK_BYTES)
    else:
        return "utf-8", "surrogatepass"
    if declared is not None and _can_be(declared, stream):
        return declared, "replace"
    if _is_damaged_utf8(stream):
        return "utf-8", "replace"
    likeliest = from_bytes(_sample(stream, failure_at)).best()
    if likeliest is None:
        raise DocumentError(f"This is not text in any known encoding. {_HOW_TO_MEND}")
    return likeliest.encoding, "replace"


def _can_be(encoding: str, stream: BinaryIO) -> bool:
    """Only for documents that are read whole anyway. False when there is no such encoding."""
    stream.seek(0)
    try:
        stream.read().decode(encoding, errors="replace")
    except (LookupError, UnicodeError):
        return False
    return True


def _is_damaged_utf8(stream: BinaryIO) -> bool:
    """More whole multi-byte characters than broken ones: not another encoding."""
    broken = excess = 0
    for text in _decoded(stream, "utf-8", "replace"):
        broken += text.count("\ufffd")
        excess += len(text.encode("utf-8", errors="replace")) - len(text)
    return excess > 4 * broken


def _sample(stream: BinaryIO, failure_at: int) -> bytes:
    """The beginning, and some from where it is no UTF-8; whole lines, since a character may be several bytes."""
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
