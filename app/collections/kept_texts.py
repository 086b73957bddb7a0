"""Kept texts as files: a head with the SHA-256 of what follows, then UTF-8. Those of earlier releases have no head."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from app.types.documents import TextWindow

_MARK = b"\0gircse-text-2 "
_DIGITS, _HEX_DIGITS = 64, frozenset(b"0123456789abcdef")
_MOST_FLIPPED = 3  # bytes of a head that is still told from text
_HEAD_BYTES = len(_MARK) + _DIGITS + 1
_LOST = bytes(8)  # what a disk gives for a page that it lost
_PIECE_BYTES = 1 << 20


def write_text(file: BinaryIO, parts: Iterable[str]) -> None:
    """Into an empty file, which can seek."""
    digest = hashlib.sha256()
    file.write(bytes(_HEAD_BYTES))
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(data)
        file.write(data)
    file.seek(0)
    file.write(_head(digest.hexdigest()))


def read_text(file: BinaryIO) -> str:
    """Raises ValueError where it is not what was written."""
    return b"".join(text_pieces(file)).decode("utf-8", "surrogatepass")


def read_window(file: BinaryIO, start: int, end: int) -> TextWindow:
    """Decoded piece by piece: characters have no fixed place in UTF-8. Raises ValueError as `read_text`."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
    begin, parts = 0, []
    for piece in text_pieces(file):
        text = decode(piece)
        parts.append(text[max(0, start - begin) : max(0, end - begin)])
        begin += len(text)
    decode(b"", True)
    return TextWindow("".join(parts), min(start, begin), begin)


def is_whole_text(file: BinaryIO) -> bool:
    """Whether it has its hash; of one without, whether it is UTF-8."""
    try:
        read_window(file, 0, 0)
    except ValueError:
        return False
    return True


def has_digest(file: BinaryIO) -> bool:
    return _has_mark(file.read(_HEAD_BYTES))


def text_pieces(file: BinaryIO) -> Iterator[bytes]:
    """Of the text, without the head. Raises ValueError behind the last where they are not what was written."""
    head = file.read(_HEAD_BYTES)
    if not head or head.startswith(_LOST):
        raise ValueError("nothing is left of its beginning")
    if not _has_mark(head):
        yield head
        yield from iter(lambda: file.read(_PIECE_BYTES), b"")
        return
    digest = hashlib.sha256()
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
        yield piece
    if head != _head(digest.hexdigest()):
        raise ValueError("it has another hash than it was written with")


def _has_mark(head: bytes) -> bool:
    """Most of it is enough: one whose own bits were flipped would else be taken for text."""
    alike = sum(one == other for one, other in zip(head, _MARK, strict=False))
    digits = sum(each in _HEX_DIGITS for each in head[len(_MARK) : _HEAD_BYTES - 1])
    return alike >= len(_MARK) - _MOST_FLIPPED and digits >= _DIGITS - _MOST_FLIPPED


def _head(digest: str) -> bytes:
    return _MARK + digest.encode("ascii") + b"\n"
