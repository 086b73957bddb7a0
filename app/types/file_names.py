"""What a document is called where nobody gave it a title: the name of its file, as its uri tells it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from app.types.uris import name_in

_HOST = re.compile(r"https?://[^/]+/*", re.IGNORECASE)


def shown_title(title: str, uri: str) -> str:
    """Its title; where it has none, or only its uri, the name of its file without the suffix."""
    if title and title != uri:
        return title
    name = name_in(uri)
    return (name if _HOST.fullmatch(uri) else PurePosixPath(name).stem) or uri
