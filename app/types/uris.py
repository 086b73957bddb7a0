"""URIs of uploads: `upload://PATH`, percent-encoded by RFC 3987, so that the file's name can be recovered. URIs of all
kinds for display."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

UPLOAD = "upload://"

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/")
_SCHEME = re.compile("[a-zA-Z][a-zA-Z0-9+.-]*")
_WITH_HOST = frozenset({"http", "https", "ftp", "file"})
_CONTROLS = frozenset({"Cc", "Cf", "Zl", "Zp"})  # controls, marks of direction, line separators
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_ESCAPES = re.compile(f"(?:{_ESCAPE.pattern})+")
_HOST = re.compile("[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*")
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


def upload_uri(path: str) -> str:
    """Makes the URI of a file's name, or of its path in a folder.

    Letters of all languages stay readable. They are normalised to NFC, since systems encode the same name differently.
    """
    path = unicodedata.normalize("NFC", path)
    return UPLOAD + "".join(character if _is_plain(character) else _escaped(character) for character in path)


def canonical_uri(uri: str) -> str:
    """Returns one spelling for each upload, whether the sender percent-encoded it or not.

    Other URIs only change to NFC, and their control characters, which a terminal would execute, are percent-encoded.
    """
    if not uri.startswith(UPLOAD):
        uri = unicodedata.normalize("NFC", uri)
        return "".join(_escaped(each) if unicodedata.category(each) in _CONTROLS else each for each in uri)
    path = uri.removeprefix(UPLOAD)
    is_encoded = all(each == "%" or _is_plain(each) for each in path) and "%" not in _ESCAPE.sub("", path)
    try:
        return upload_uri(unquote(path, errors="strict") if is_encoded else path)
    except UnicodeDecodeError:  # the escapes are not UTF-8, so no name can be recovered
        return uri


def path_in(uri: str) -> str:
    """The decoded path of a URI, without host, query and fragment. Accepts any text, also the bare name of a file."""
    path, is_encoded = _path(uri)
    return unquote(path) if is_encoded else path


def name_in(uri: str) -> str:
    """The decoded last part of the path, which is the file's name; for a URI without a path, the host."""
    path, is_encoded = _path(uri)
    last = path.rstrip("/").rpartition("/")[2]
    return (unquote(last) if is_encoded else last) or uri.rstrip("/").rpartition("/")[2]


def shown_address(uri: str) -> str:
    """The URI for display: of an upload the decoded path, of others the URI with readable letters, as in browsers.

    Escapes stay where their character would change the meaning of the URI, is invisible (spaces, controls, marks of
    direction) or is not UTF-8, and in the host.
    """
    if uri.startswith(UPLOAD):
        return path_in(uri)
    host = found[0] if (found := _HOST.match(uri)) else ""
    return host + (_ESCAPES.sub(lambda escapes: _readable(escapes[0]), uri[len(host) :]) if host else uri)


def _path(uri: str) -> tuple[str, bool]:
    """Returns the path and whether it is percent-encoded; without a scheme, the text is a bare file name and is not.

    Does not use `urlsplit`, which would take the first part of an upload's path for a host, and fails on a bracket in
    it.
    """
    scheme, sign, rest = uri.partition("://")
    if not sign or not _SCHEME.fullmatch(scheme):
        return uri, False
    if f"{scheme.lower()}://" == UPLOAD:
        return rest, True  # an upload of an old release may contain an unescaped ? or #
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    return (path.partition("/")[2] if scheme.lower() in _WITH_HOST else path), True


def _readable(escapes: str) -> str:
    """Decodes a run of escapes, apart from reserved and invisible characters."""
    try:
        text = unquote(escapes, errors="strict")
    except UnicodeDecodeError:
        return escapes
    return "".join(
        each if each in _UNRESERVED or (each > "\x7f" and _is_plain(each)) else _escaped(each) for each in text
    )


def _is_plain(character: str) -> bool:
    """True for characters that need no escape: neither special in a URI nor invisible (spaces, controls, marks of
    direction)."""
    return character in _PLAIN or (character > "\x7f" and unicodedata.category(character)[0] in "LMNPS")


def _escaped(character: str) -> str:
    """Percent-encodes a character. A lone surrogate stays unchanged; a later check refuses it with the reason."""
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "ignore")) or character
