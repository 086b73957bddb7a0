"""Office files that are encrypted with a password that their program knows: Excel and PowerPoint store write-protected
files so, and open them without asking."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import BinaryIO
from xml.parsers.expat import ExpatError

from app.errors import DocumentError
from ingest.readers.containers import COMPOUND, open_compound_file
from ingest.readers.errors import damaged, parser_errors

try:
    from msoffcrypto import OfficeFile
    from msoffcrypto.exceptions import DecryptionError, FileFormatError, ParseError
    from msoffcrypto.format import ppt97, xls97
except ImportError:
    OfficeFile = None
else:
    # The library copies a file into a temporary one, and the process that parses documents may write none.
    ppt97.tempfile = xls97.tempfile = SimpleNamespace(TemporaryFile=io.BytesIO)

_PASSWORDS = ("VelvetSweatshop", "/01Hannes Ruescher/01")  # of Excel, of PowerPoint
_PACKAGE, _INFORMATION = "EncryptedPackage", "EncryptionInfo"  # streams of an encrypted file of today's formats
_OLD = ("Workbook", "PowerPoint Document")


def unlocked(stream: BinaryIO) -> BinaryIO:
    """The decrypted file if a default password opens `stream`; else `stream`, whose reader refuses it if it is
    encrypted. Both are at their start.

    Raises DocumentError for encrypted files of today's formats that no default password opens, or that are damaged.
    """
    is_package = is_old = False
    stream.seek(0)
    if stream.read(len(COMPOUND)) == COMPOUND:
        is_package, is_old = _kinds(stream)
    stream.seek(0)
    if is_package:
        return _package(stream)
    return (_old_file(stream) if is_old else None) or stream


def _kinds(stream: BinaryIO) -> tuple[bool, bool]:
    """Whether a compound file is an encrypted file of today's formats, and whether it is an old one that may be
    encrypted; neither if it is damaged."""
    try:
        with open_compound_file(stream) as compound:
            return compound.exists(_PACKAGE), any(map(compound.exists, _OLD))
    except parser_errors():
        return False, False


def _package(stream: BinaryIO) -> BinaryIO:
    protected = DocumentError("This file is protected by a password. Save it without one.")
    if OfficeFile is None:
        raise protected
    try:
        with open_compound_file(stream) as compound:
            if not compound.exists(_INFORMATION):  # by a server's rights, not by a password
                raise protected
        decrypted = _decrypted(stream, verify_password=True)
    except (FileFormatError, ParseError, ExpatError, *parser_errors()) as error:
        raise damaged("document", error) from error
    if decrypted is None:
        raise protected
    return decrypted


def _old_file(stream: BinaryIO) -> BinaryIO | None:
    if OfficeFile is None:
        return None
    try:
        return _decrypted(stream) if OfficeFile(stream).is_encrypted() else None
    except (DecryptionError, FileFormatError, ParseError, ExpatError, *parser_errors()):
        return None  # its reader says what is damaged
    finally:
        stream.seek(0)


def _decrypted(stream: BinaryIO, **options: bool) -> BinaryIO | None:
    """The decrypted file, at its start; None if no default password opens it."""
    for password in _PASSWORDS:
        decrypted = io.BytesIO()
        try:
            file = OfficeFile(stream)  # which refuses unknown methods
            file.load_key(password=password, **options)
            file.decrypt(decrypted)
        except DecryptionError:
            continue
        decrypted.seek(0)
        return decrypted
    return None
