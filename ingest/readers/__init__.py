"""Readers: the bytes of a file become text. Workers use `ProcessReader`.

What this package exports imports no parser: parsers are loaded in the child process alone.
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
