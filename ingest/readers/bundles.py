"""Zip and tar archives: parses every file of a known format in memory, under a heading. Unpacks compressed files.
Writes nothing to disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Sequence
from typing import IO, BinaryIO, cast

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.encodings import encoding_of
from ingest.readers.errors import damaged, parser_errors
from ingest.readers.limits import ReadLimits, check_nesting, unpacks_to_more
from ingest.readers.members import Members, ReadMember

_ENCRYPTED, _UTF8_NAME = 0x1, 0x800  # flags
_COMPRESSIONS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_TAR_OVERHEAD = 2  # for headers and padding, which can double the size of many tiny files


def read_zip(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    members = Members("zip archive", "files", limits, read_member)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        for entry, name in zip(entries, _names(entries), strict=True):
            if _is_hidden(name):
                members.count(name)
            elif entry.flag_bits & _ENCRYPTED:
                members.skip(name, "It is protected by a password.")
            else:
                _add_zipped(members, archive, entry, name)
    members.require_one()
    return _joined(members, "application/zip")


def _names(entries: Sequence[zipfile.ZipInfo]) -> list[str]:
    """The names of the files. Those without a mark of UTF-8 are in the encoding of the system that packed them."""
    packed = [b"" if entry.flag_bits & _UTF8_NAME else entry.filename.encode("cp437", "replace") for entry in entries]
    beyond_ascii = b"\n".join(name for name in packed if not name.isascii())
    codec = encoding_of(io.BytesIO(beyond_ascii)).codec
    return [
        entry.filename if name.isascii() else name.decode(codec, "replace")
        for entry, name in zip(entries, packed, strict=True)
    ]


def _add_zipped(members: Members, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> None:
    def load(most: int) -> bytes:
        with archive.open(entry) as file:
            return file.read(most)

    try:
        members.add(name, load)
    except DocumentError:
        raise
    except parser_errors() as error:
        members.skip(name, f"It is damaged ({type(error).__name__}).")


def read_tar(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    members = Members("tar archive", "files", limits, read_member)
    # Read as a stream, so that no header can make the reader seek, and every byte is counted.
    with tarfile.open(fileobj=_unpacked(data, limits), mode="r|") as archive:
        for entry in archive:
            if entry.isdir():
                members.count(entry.name)
            elif not entry.isreg():
                members.count(entry.name)
                members.skip(entry.name, "It is a link or a device, not a file.")
            elif _is_hidden(entry.name):
                members.count(entry.name)
            else:
                file = archive.extractfile(entry)
                assert file is not None  # only links and devices give None
                members.add(entry.name, file.read)
    members.require_one()
    return _joined(members, "application/x-tar")


def decompressed(stream: BinaryIO, limits: ReadLimits) -> bytes:
    """The content of a file compressed by gzip, bzip2 or xz. Raises DocumentError."""
    check_nesting("compressed file", limits)
    try:
        data = _unpacked(stream.read(), limits).read(limits.max_expanded_bytes + 1)
    except parser_errors() as error:
        raise damaged("compressed file", error) from error
    if len(data) > limits.max_expanded_bytes:
        raise unpacks_to_more("compressed file", limits)
    return data


def _joined(members: Members, media_type: str) -> ExtractedText:
    return ExtractedText(members.text, "", media_type, members.metadata, marks=members.marks, cells=members.cells)


def _unpacked(data: bytes, limits: ReadLimits) -> IO[bytes]:
    stream = io.BytesIO(data)
    for signature, open_stream in _COMPRESSIONS:
        if data.startswith(signature):
            unpacked = cast(IO[bytes], open_stream(stream, "rb"))
            return cast(IO[bytes], _Counted(unpacked, limits))
    return stream


class _Counted:
    """A decompressing stream that raises DocumentError once more bytes than the limit come out."""

    def __init__(self, stream: IO[bytes], limits: ReadLimits) -> None:
        self._stream = stream
        self._limits = limits
        self._left = _TAR_OVERHEAD * limits.max_expanded_bytes

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise unpacks_to_more("tar archive", self._limits)
        return data


def _is_hidden(name: str) -> bool:
    """Whether a file manager or version control left it in the archive, such as `.git/` and `__MACOSX/`."""
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/") if part not in (".", ".."))
