"""The file within a signed one (S/MIME, p7m): CMS SignedData (RFC 5652). No signature is checked."""

from __future__ import annotations

import binascii
import re
from contextlib import suppress
from typing import BinaryIO

from app.errors import DocumentError
from ingest.readers.limits import ReadLimits, check_nesting

_SIGNED_DATA = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02"  # 1.2.840.113549.1.7.2
_SEQUENCE, _EXPLICIT, _OCTETS, _OCTETS_IN_PIECES, _IDENTIFIER = 0x30, 0xA0, 0x04, 0x24, 0x06
_INDEFINITE = 0x80
_END = b"\0\0"
_DEEPEST = 16
# As text (PEM, RFC 7468), or only its base64, as registries deliver it.
_ARMOR = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:-----BEGIN (?:PKCS7|PKCS #7 SIGNED DATA|CMS)-----\s+)?(?P<base64>MI[A-Za-z0-9+/=\s]+)"
)


def unarmored(data: bytes) -> bytes:
    """The bytes of a signed or encrypted file that is written as text; `data` if it is not."""
    armored = _ARMOR.match(data)
    if armored is not None:
        with suppress(binascii.Error):
            base64 = b"".join(armored["base64"].split())
            return binascii.a2b_base64(base64[: len(base64) // 4 * 4])
    return data


class _Element:
    """An element of BER (X.690 8.1) at `at`. Raises IndexError or ValueError if it is damaged."""

    def __init__(self, data: bytes, at: int, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise ValueError
        self._data, self._depth = data, depth
        self.tag, length = data[at], data[at + 1]
        self.begin, self.end, self.after = at + 2, 0, 0
        if length == _INDEFINITE:
            self.end = self.begin
            while data[self.end : self.end + 2] != _END:
                self.end = _Element(data, self.end, depth + 1).after
            self.after = self.end + 2
            return
        if length > _INDEFINITE:
            self.begin += length - _INDEFINITE
            length = int.from_bytes(data[at + 2 : self.begin], "big")
        self.end = self.after = self.begin + length
        if self.end > len(data):
            raise ValueError

    @property
    def value(self) -> bytes:
        return self._data[self.begin : self.end]

    def children(self, tag: int) -> list[_Element]:
        """Those with this tag."""
        found, at = [], self.begin
        while at < self.end:
            child = _Element(self._data, at, self._depth + 1)
            at = child.after
            if child.tag == tag:
                found.append(child)
        return found


def signed_file(stream: BinaryIO, limits: ReadLimits) -> bytes:
    """Raises DocumentError."""
    check_nesting("signed file", limits)
    if content := signed_content(stream.read()):
        return content
    raise DocumentError("This signed file is damaged, or the file that it signs is not in it. Add that file.")


def signed_content(data: bytes) -> bytes:
    """The signed file; empty if `data` is something else, such as an encrypted message, or damaged."""
    data = unarmored(data)
    try:
        content = _Element(data, 0)
        if content.children(_IDENTIFIER)[0].value != _SIGNED_DATA:
            return b""
        signed = content.children(_EXPLICIT)[0].children(_SEQUENCE)[0]
        within = signed.children(_SEQUENCE)[0].children(_EXPLICIT)[0]
        octets = within.children(_OCTETS) or within.children(_OCTETS_IN_PIECES)[0].children(_OCTETS)
    except (IndexError, ValueError):
        return b""
    return b"".join(piece.value for piece in octets)
