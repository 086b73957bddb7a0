"""URIs of what was uploaded: `upload://PATH`, percent-encoded as RFC 3987 says, so that its name can be had back."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

UPLOAD = "upload://"

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/")
_SCHEME = re.compile("[a-zA-Z][a-zA-Z0-9+.-]*")
_WITH_HOST = frozenset({"http", "https", "ftp", "file"})
_OBEYED = frozenset({"Cc", "Cf", "Zl", "Zp"})  # controls, marks of direction, line separators
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


def upload_uri(path: str) -> str:
    """Of the name of a file, or of its path in a folder. Letters of all languages stay, as people read them, each as
    one character with its accents (NFC): systems differ in how they spell the same name."""
    path = unicodedata.normalize("NFC", path)
    return UPLOAD + "".join(each if _is_plain(each) else _escaped(each) for each in path)


def canonical_uri(uri: str) -> str:
    """One spelling for each upload, whether its sender encoded it or not. Other URIs are as they were given, but for
    control characters, which are encoded, as a terminal would obey them, and for accents, which are one character with
    their letter."""
    if not uri.startswith(UPLOAD):
        uri = unicodedata.normalize("NFC", uri)
        return "".join(_escaped(each) if unicodedata.category(each) in _OBEYED else each for each in uri)
    path = uri.removeprefix(UPLOAD)
    is_encoded = all(each == "%" or _is_plain(each) for each in path) and "%" not in _ESCAPE.sub("", path)
    try:
        return upload_uri(unquote(path, errors="strict") if is_encoded else path)
    except UnicodeDecodeError:  # bytes that are no text: nothing could be had back from them
        return uri


def path_in(uri: str) -> str:
    """What stands in it for a path: without the host of an address, its query and fragment. Takes anything."""
    path, is_encoded = _path(uri)
    return unquote(path) if is_encoded else path


def name_in(uri: str) -> str:
    """The last part of its path, as the file was called; of an address without a path, the host."""
    path, is_encoded = _path(uri)
    last = path.rstrip("/").rpartition("/")[2]
    return (unquote(last) if is_encoded else last) or uri.rstrip("/").rpartition("/")[2]


def shown_address(uri: str) -> str:
    """As people know it: an upload by its path, with the spaces of its name."""
    return path_in(uri) if uri.startswith(UPLOAD) else uri


def _path(uri: str) -> tuple[str, bool]:
    """Still encoded, and whether it is: not where there is no scheme, as in the name of a file. `urlsplit` would take
    the first part for a host, and fails on a bracket in it."""
    scheme, sign, rest = uri.partition("://")
    if not sign or not _SCHEME.fullmatch(scheme):
        return uri, False
    if f"{scheme.lower()}://" == UPLOAD:
        return rest, True  # one of a former release may hold a ? or # of its name
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    return (path.partition("/")[2] if scheme.lower() in _WITH_HOST else path), True


def _is_plain(character: str) -> bool:
    """Neither what a URI gives a meaning, nor what cannot be seen, as spaces, controls and marks of direction."""
    return character in _PLAIN or (character > "\x7f" and unicodedata.category(character)[0] in "LMNPS")


def _escaped(character: str) -> str:
    """A lone surrogate stays, and is refused with the reason."""
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "ignore")) or character
