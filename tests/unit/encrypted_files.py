"""Office files encrypted with a password, as Excel and PowerPoint write them."""

from __future__ import annotations

import io
import struct
from hashlib import md5, sha1

import olefile
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher
from msoffcrypto.method import rc4, rc4_cryptoapi
from msoffcrypto.method.ecma376_agile import ECMA376Agile
from msoffcrypto.method.rc4 import DocumentRC4
from other_office_samples import record
from outlook_files import compound_file

_SALT, _VERIFIER = bytes(range(16)), bytes(range(16, 32))
_FILE_PASS, _BEGIN, _SHEET = 0x002F, 0x0809, 0x0085
_KEY_BITS = 128


def encrypted_package(data: bytes, password: str) -> bytes:
    """A file of today's formats."""
    return bytes(ECMA376Agile.encrypt(password, io.BytesIO(data)))


def encrypted_workbook(data: bytes, password: str) -> bytes:
    """An xls that `excel_97` made with `head_more=FILE_PASS`: the place of the record that says how it is encrypted."""
    stream = _streams(data)["Workbook"]
    sealed = _rc4(rc4._makekey(password, _SALT, 0), _VERIFIER + md5(_VERIFIER).digest())
    plain, open_places, at = bytearray(stream), set[int](), 0
    while at < len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        if kind == _FILE_PASS:
            plain[at + 4 : at + 4 + size] = struct.pack("<HHH", 1, 1, 1) + _SALT + sealed
        kept = size if kind in (_FILE_PASS, _BEGIN) else 4 if kind == _SHEET else 0
        open_places.update(range(at, at + 4 + kept))
        at += 4 + size
    hidden = DocumentRC4.decrypt(password, _SALT, io.BytesIO(plain), blocksize=1024).read()
    mixed = bytes(plain[place] if place in open_places else hidden[place] for place in range(len(plain)))
    return compound_file({"Workbook": mixed})


FILE_PASS = record(_FILE_PASS, bytes(54))


def encrypted_presentation(data: bytes, password: str) -> bytes:
    """A ppt that `powerpoint_97` made: each object with a key of its own; the way of encryption is a further object."""
    streams = _streams(data)
    user, stream = bytearray(streams["Current User"]), streams["PowerPoint Document"]
    (edit_at,) = struct.unpack_from("<I", user, 16)
    edit = bytearray(stream[edit_at:])
    (directory_at,) = struct.unpack_from("<I", edit, 20)
    (entry,) = struct.unpack_from("<I", stream, directory_at + 8)
    first, count = entry & 0xFFFFF, entry >> 20
    places = [*struct.unpack_from(f"<{count}I", stream, directory_at + 12), directory_at]
    hidden = b"".join(
        _rc4(
            rc4_cryptoapi._makekey(password, _SALT, _KEY_BITS, first + number),
            stream[places[number] : places[number + 1]],
        )
        for number in range(count)
    )
    session = _session(password)
    directory = struct.pack(f"<I{count + 1}I", first | (count + 1) << 20, *places)
    stream = hidden + session + struct.pack("<HHI", 0, 0x1772, len(directory)) + directory
    struct.pack_into("<I", edit, 4, 0x20)
    struct.pack_into("<I", edit, 20, len(hidden + session))
    struct.pack_into("<I", user, 16, len(stream))
    struct.pack_into("<I", user, 12, 0xF3D1C4DF)
    document = stream + bytes(edit) + struct.pack("<I", first + count)
    return compound_file({"Current User": bytes(user), "PowerPoint Document": document})


def _session(password: str) -> bytes:
    header = struct.pack("<IIIIIIII", 4, 0, 0x6801, 0x8004, _KEY_BITS, 1, 0, 0) + "RC4\0".encode("utf-16-le")
    sealed = _rc4(rc4_cryptoapi._makekey(password, _SALT, _KEY_BITS, 0), _VERIFIER + sha1(_VERIFIER).digest())
    body = struct.pack("<HHII", 2, 2, 4, len(header)) + header + struct.pack("<I", 16) + _SALT + sealed[:16]
    body += struct.pack("<I", 20) + sealed[16:]
    return struct.pack("<HHI", 0xF, 0x2F14, len(body)) + body


def _rc4(key: bytes, data: bytes) -> bytes:
    return Cipher(ARC4(key), mode=None).encryptor().update(data)


def _streams(data: bytes) -> dict[str, bytes]:
    with olefile.OleFileIO(io.BytesIO(data)) as compound:
        return {"/".join(path): compound.openstream(path).read() for path in compound.listdir()}
