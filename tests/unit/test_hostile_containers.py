"""Archives and compound files made to fill the memory, or to fail, where their format is detected: in the service."""

from __future__ import annotations

import bz2
import io
import struct
import tracemalloc
import zipfile
from contextlib import suppress

import pytest
from sample_files import samples

from app.errors import DocumentError
from ingest.readers import detect
from ingest.readers.compound_files import compound_file as large_compound_file
from ingest.readers.containers import open_compound_file
from ingest.readers.document import read_document

MEGABYTE = 1_000_000
BZIP2, LZMA = zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA


def archive(name: str, method: int, packed: bytes, *, declared: int = 50, copies: int = 1) -> bytes:
    """An archive of one member, listed `copies` times; zipfile would not write such sizes."""
    head = struct.pack("<4s5H3I2H", b"PK\3\4", 46, 0, method, 0, 0, 0, len(packed), declared, len(name), 0)
    body = head + name.encode() + packed
    entry = struct.pack("<4s6H3I2H", b"PK\1\2", 46, 46, 0, method, 0, 0, 0, len(packed), declared, len(name), 0)
    listed = (entry + bytes(14) + name.encode()) * copies
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, copies % 2**16, copies % 2**16, len(listed), len(body), 0)
    return body + listed + end


def zeros(megabytes: int) -> bytes:
    packer = bz2.BZ2Compressor()
    return b"".join(packer.compress(bytes(MEGABYTE)) for _ in range(megabytes)) + packer.flush()


def chained_folders(count: int) -> bytes:
    """A compound file whose entries are each the left sibling of the one before."""
    sectors, tables = count // 4, count // 512 + 1
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += struct.pack("<9I", 0, tables, tables, 0, 4_096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    header += struct.pack("<109I", *range(tables), *[0xFFFFFFFF] * (109 - tables))
    chain = [0xFFFFFFFD] * tables + [tables + number for number in range(1, sectors)] + [0xFFFFFFFE]
    chain += [0xFFFFFFFF] * (128 * tables - len(chain))
    entries = bytearray()
    for number in range(count):
        name = ("Root Entry\0" if not number else f"e{number}\0").encode("utf-16-le")
        left = number + 1 if 0 < number < count - 1 else 0xFFFFFFFF
        entry = name.ljust(64, b"\0") + struct.pack("<HB", len(name), 5 if not number else 2)
        entry = entry.ljust(68, b"\0") + struct.pack("<3I", left, 0xFFFFFFFF, 0xFFFFFFFF if number else 1)
        entries += entry.ljust(128, b"\0")
    return header + struct.pack(f"<{len(chain)}I", *chain) + bytes(entries)


def endless_tables() -> bytes:
    """A compound file of 2 kB whose header claims 2**31 tables, all in one sector that names itself as the next."""
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += struct.pack("<9I", 0, 2**31, 2, 0, 4_096, 0xFFFFFFFE, 0, 0, (2**31 - 109 + 126) // 127)
    header += struct.pack("<109I", *[1] * 109)
    return header + struct.pack("<128I", *[1] * 127, 0) + struct.pack("<128I", *[0xFFFFFFFF] * 128) + bytes(512)


BOMB = zeros(100)  # in 100 bytes
HOSTILE = {
    "a bomb": archive("mimetype", BZIP2, BOMB),
    "a bomb in the content types": archive("[Content_Types].xml", BZIP2, BOMB),
    "a directory of 200,000 files": archive("a", zipfile.ZIP_STORED, b"", copies=200_000),
    "LZMA with invalid options": archive("mimetype", LZMA, b"\x09\x14\x05\x00" + b"\xff" * 60),
    "a deflated member that is garbage": archive("mimetype", zipfile.ZIP_DEFLATED, b"\xff" * 60),
    "a member of an unknown compression": archive("mimetype", 99, b"abc"),
    "folders in a chain of 4,000": chained_folders(4_000),
    "tables that name themselves": endless_tables(),
    "sectors of 4 bytes": endless_tables()[:30] + struct.pack("<H", 2) + endless_tables()[32:],
    "a compound file of 20 bytes": endless_tables()[:20],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("suffix", ["", ".epub", ".doc", ".msg", ".txt"])
def test_a_format_is_detected_in_little_memory_or_refused(name, suffix):
    tracemalloc.start()
    try:
        with suppress(DocumentError):  # any other error would end the ingestion of a folder
            detect(io.BytesIO(HOSTILE[name]), uri=f"file:///a{suffix}")
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 20 * MEGABYTE


@pytest.mark.parametrize("name", [name for name in HOSTILE if "bomb" not in name])
@pytest.mark.parametrize("suffix", [".zip", ".epub", ".doc", ".xls", ".msg", ".docx"])
def test_readers_refuse_it_with_a_reason(name, suffix):
    with pytest.raises(DocumentError):
        read_document(HOSTILE[name], uri=f"file:///a{suffix}")


def test_sound_compound_files_of_any_size_are_opened():
    for size in (10, 5_000, 9 * MEGABYTE):  # the last one needs tables beyond those in its header
        with open_compound_file(io.BytesIO(large_compound_file({"WordDocument": b"x" * size}))) as opened:
            assert opened.get_size("WordDocument") == size


def test_sound_archives_of_office_keep_their_format():
    files = {name: data for name, data in samples().items() if data.startswith(b"PK")}
    assert len(files) > 5
    for name, data in files.items():
        assert detect(io.BytesIO(data), uri="upload") == detect(io.BytesIO(data), uri=name)


def test_a_text_of_repeated_roots_is_no_work():
    assert detect(io.BytesIO(b"x " + b"<office:document " * 3_000), uri="upload") == "text/plain"
