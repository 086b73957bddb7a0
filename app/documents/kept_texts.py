"""Files of extracted texts: a header with the SHA-256 of the text, then UTF-8. Earlier releases wrote no header."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from app.types.documents import TextWindow

_MARK = b"\0gircse-text-2 "
_DIGITS, _HEX_DIGITS = 64, frozenset(b"0123456789abcdef")
_MOST_FLIPPED = 3  # altered bytes with which a header is still recognised as one
_HEAD_BYTES = len(_MARK) + _DIGITS + 1
_LOST = bytes(8)  # zeros: a page that the disk lost
_PIECE_BYTES = 1 << 20


def write_text(file: BinaryIO, parts: Iterable[str]) -> None:
    """Write header and text to an empty, seekable file."""
    digest = hashlib.sha256()
    file.write(bytes(_HEAD_BYTES))
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(data)
        file.write(data)
    file.seek(0)
    file.write(_head(digest.hexdigest()))


def read_text(file: BinaryIO) -> str:
    """The text of a file. Raises ValueError if it is damaged."""
    return b"".join(text_pieces(file)).decode("utf-8", "surrogatepass")


def read_window(file: BinaryIO, start: int, end: int) -> TextWindow:
    """Characters [start, end) of the text. Decodes from the beginning, since UTF-8 characters vary in length.

    Raises ValueError if the file is damaged.
    """
    decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
    begin, parts = 0, []
    for piece in text_pieces(file):
        text = decode(piece)
        parts.append(text[max(0, start - begin) : max(0, end - begin)])
        begin += len(text)
    decode(b"", True)
    return TextWindow("".join(parts), min(start, begin), begin)


def is_whole_text(file: BinaryIO) -> bool:
    """Whether the text matches its hash or, without a header, is valid UTF-8."""
    try:
        read_window(file, 0, 0)
    except ValueError:
        return False
    return True


def has_digest(file: BinaryIO) -> bool:
    return _has_mark(file.read(_HEAD_BYTES))


def text_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of the text without the header. Raises ValueError after the last piece if the hash differs."""
    head = file.read(_HEAD_BYTES)
    if not head or head.startswith(_LOST):
        raise ValueError("its beginning is lost")
    if not _has_mark(head):
        yield head
        yield from iter(lambda: file.read(_PIECE_BYTES), b"")
        return
    digest = hashlib.sha256()
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
        yield piece
    if head != _head(digest.hexdigest()):
        raise ValueError("its hash does not match")


def _has_mark(head: bytes) -> bool:
    """Whether `head` is a header. Tolerates `_MOST_FLIPPED` altered bytes: a damaged header must not pass as text."""
    equal = sum(one == other for one, other in zip(head, _MARK, strict=False))
    digits = sum(byte in _HEX_DIGITS for byte in head[len(_MARK) : _HEAD_BYTES - 1])
    return equal >= len(_MARK) - _MOST_FLIPPED and digits >= _DIGITS - _MOST_FLIPPED


def _head(digest: str) -> bytes:
    return _MARK + digest.encode("ascii") + b"\n"
