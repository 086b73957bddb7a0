"""The exceptions of parsing libraries on damaged files: their own, and built-in ones raised by bugs."""

import csv
import email.errors
import lzma
import struct
import sys
import tarfile
import zipfile
import zlib
from xml.etree.ElementTree import ParseError

from app.errors import DocumentError

_BUILT_IN = (
    ParseError,
    csv.Error,
    email.errors.MessageError,
    zipfile.BadZipFile,
    tarfile.TarError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
    EOFError,
    OSError,
    SyntaxError,  # raised by Pillow for a broken PNG
)
_OF_LIBRARIES = (("lxml.etree", "LxmlError"),)


def parser_errors() -> tuple[type[Exception], ...]:
    """Exception classes for `except`. Includes a library's own only if it is loaded: otherwise none can have been
    raised."""
    loaded = ((sys.modules[module], name) for module, name in _OF_LIBRARIES if module in sys.modules)
    return (*_BUILT_IN, *(getattr(module, name) for module, name in loaded))


def damaged(kind: str, error: Exception) -> DocumentError:
    """The error for a damaged file, with the first line of the library's message."""
    if isinstance(error, RecursionError):
        return too_deep(kind)
    cause = str(error).partition("\n")[0]
    detail = f"{type(error).__name__}: {cause}" if cause else type(error).__name__
    return DocumentError(f"This {kind} is damaged ({detail}). Open it and save it again.")


def too_deep(kind: str) -> DocumentError:
    return DocumentError(f"This {kind} is nested too deeply to be read. Save it with fewer levels, or as text.")
