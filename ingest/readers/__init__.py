"""Readers parse the bytes of a file into text. Workers use `ProcessReader`.

Importing this package loads no parser: parsers are loaded only in the child process.
"""

from ingest.readers.content_types import detect
from ingest.readers.limits import DEFAULT_LIMITS, ProcessLimits, ReadLimits
from ingest.readers.media_types import SUFFIXES, type_of_suffix
from ingest.readers.process import ProcessPageRenderer, ProcessReader

__all__ = [
    "DEFAULT_LIMITS",
    "SUFFIXES",
    "ProcessLimits",
    "ProcessPageRenderer",
    "ProcessReader",
    "ReadLimits",
    "detect",
    "type_of_suffix",
]
