"""What a document is called where nobody gave it a title: the name of its file, as its uri tells it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote

_WEB = ("http", "https")


def last_part(uri: str) -> str:
    """Of the path, as a person would write it: only addresses of the web and of files are quoted."""
    scheme = uri.partition(":")[0].lower()
    path = re.split(r"[?#]", uri)[0] if scheme in _WEB else uri
    last = path.rstrip("/").rpartition("/")[2]
    return unquote(last) if scheme in (*_WEB, "file") else last


def shown_title(title: str, uri: str) -> str:
    """Its title; where it has none, or only its uri, the name of its file without the suffix."""
    if title and title != uri:
        return title
    name = last_part(uri)
    is_host = uri.partition(":")[0].lower() in _WEB and uri.rstrip("/").count("/") == 2
    return (name if is_host else PurePosixPath(name).stem) or uri
