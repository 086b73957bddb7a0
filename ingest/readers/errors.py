"""What parsing libraries raise on damaged files: their own errors, and any that a slip in their code may give."""

import csv
import email.errors
import lzma
import struct
import tarfile
import zipfile
import zlib
from xml.etree.ElementTree import ParseError

from docx.opc.exceptions import OpcError
from lxml.etree import LxmlError
from openpyxl.utils.exceptions import InvalidFileException
from pypdf.errors import DependencyError, PyPdfError

from app.errors import DocumentError

PARSER_ERRORS = (
    OpcError,
    InvalidFileException,
    PyPdfError,
    DependencyError,
    LxmlError,
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
)


def damaged(kind: str, error: Exception) -> DocumentError:
    """The libraries' messages can be long: their first line says enough."""
    cause = str(error).partition("\n")[0]
    detail = f"{type(error).__name__}: {cause}" if cause else type(error).__name__
    return DocumentError(f"This {kind} is damaged ({detail}). Open it and save it again.")
