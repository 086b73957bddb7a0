"""Opens zip archives and compound files (OLE) within bounds.

Formats are detected in the service, which has no limit on memory or time as the child process of the readers has.
"""

from __future__ import annotations

import os
import struct
import zipfile
from typing import BinaryIO

import olefile

COMPOUND = b"\xd0\xcf\x11\xe0"  # the first bytes of a compound file
_MOST_AT_ONCE = 5_000_000  # bytes: the directory of an archive of about 50,000 files
_BOUNDED_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SECTOR_SHIFT_AT, _FAT_SECTORS_AT = 30, 44
_SECTOR_SHIFTS = (9, 12)  # sectors of 512 and 4,096 bytes
_SPARE_SECTORS = 128


class ImplausibleHeaderError(ValueError):
    """A compound file whose header claims what cannot be: libraries would fill the memory with it."""


def open_compound_file(stream: BinaryIO) -> olefile.OleFileIO:
    """Opens a compound file. Raises ImplausibleHeaderError, and for other damage an error of `parser_errors`."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    header = stream.read(512)
    (shift,) = struct.unpack_from("<H", header, _SECTOR_SHIFT_AT)
    (fat_sectors,) = struct.unpack_from("<I", header, _FAT_SECTORS_AT)
    if shift not in _SECTOR_SHIFTS:
        raise ImplausibleHeaderError(f"its sectors have 2^{shift} bytes")
    entries_per_sector = 2**shift // 4
    if fat_sectors > 2 * (size >> shift) // entries_per_sector + _SPARE_SECTORS:
        raise ImplausibleHeaderError(f"{fat_sectors:,} tables of sectors do not fit into {size:,} bytes")
    stream.seek(0)
    return olefile.OleFileIO(stream)


class ZipDirectory(zipfile.ZipFile):
    """A zip archive of which only the names and the begin of members are read. Raises ValueError if its directory has
    more than 5 MB."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(_ReadsBounded(stream))

    def begin_of(self, name: str, most_bytes: int) -> bytes:
        """The first bytes of a member; empty without it, and for a compression that zipfile unpacks without a limit."""
        try:
            member = self.getinfo(name)
        except KeyError:
            return b""
        if member.compress_type not in _BOUNDED_METHODS:
            return b""
        with self.open(member) as file:
            return file.read(most_bytes)


class _ReadsBounded:
    """A file of which at most 5 MB are read at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        if size > _MOST_AT_ONCE:
            raise ValueError(f"{size:,} bytes of an archive would be read at once")
        return self._stream.read(size)
