"""The shown title of a document; without a given one, the name of its file from its URI."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from app.types.uris import name_in

_HOST = re.compile(r"https?://[^/]+/*", re.IGNORECASE)


def shown_title(title: str, uri: str) -> str:
    """Returns the title, unless it is empty or equals the URI; else the file's name without suffix."""
    if title and title != uri:
        return title
    name = name_in(uri)
    return (name if _HOST.fullmatch(uri) else PurePosixPath(name).stem) or uri
