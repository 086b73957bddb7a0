"""Metadata keys that gircse writes itself, in addition to the user's own keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from app.types.uris import UPLOAD, name_in, path_in

FILE_TYPE, FOLDER, YEAR = "file_type", "folder", "year"
DERIVED_KEYS = frozenset({FILE_TYPE, FOLDER, YEAR})
# Keys of the readers that do not help to narrow a search: counts, confidences, single days, titles.
TECHNICAL_KEYS = frozenset(
    {
        *("created", "modified", "date", "subject", "pages", "encoding", "encoding_guessed"),
        *("recognized_pages", "recognition_confidence", "unread_pages", "attachments", "messages", "files"),
        *("skipped", "skipped_attachments", "skipped_messages", "skipped_files", "skipped_lines", "skipped_passages"),
        *("skipped_parts", "_id", "id"),
    }
)
_DATES = ("date", "created", "modified")  # the first one that is present gives the year
_FILES = ("file://", UPLOAD)
_YEAR = re.compile(r"(1[89]\d\d|20\d\d)(?!\d)")
_SUFFIX = re.compile(r"\.(?!\d+\Z)(\w{1,10})", re.ASCII)  # not the number in "Chapter 1.5"


def derived_metadata(uri: str, metadata: Mapping[str, object]) -> dict[str, str | int]:
    """The file type and folder of an uploaded or local file, and the year of the document's date."""
    found: dict[str, str | int] = {}
    # After # stands the id of a row: all rows of a file would have equal values.
    if uri.startswith(_FILES) and "#" not in uri:
        if suffix := _SUFFIX.fullmatch(PurePosixPath(name_in(uri)).suffix):
            found[FILE_TYPE] = suffix[1].lower()
        if folder := path_in(uri).rpartition("/")[0]:
            found[FOLDER] = folder if uri.startswith(UPLOAD) else f"/{folder}"
    date = next((str(metadata[key]) for key in _DATES if metadata.get(key)), "")
    if year := _YEAR.match(date):
        found[YEAR] = int(year[1])
    return found
