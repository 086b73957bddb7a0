"""What parsing libraries raise on damaged files besides their own errors; none of them promises a closed list."""

import lzma
import struct
import zipfile
import zlib
from xml.etree.ElementTree import ParseError

from lxml.etree import LxmlError

PARSER_FAULTS = (
    LxmlError,
    ParseError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
