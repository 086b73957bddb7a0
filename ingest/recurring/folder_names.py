"""Names of IMAP folders in modified UTF-7 (RFC 3501, 5.1.3): base64 of UTF-16 between & and -, comma for slash."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error

_ENCODED, _SPECIAL = re.compile(r"&([^-]*)-"), re.compile(r"[^\x20-\x7e]+|&")


def decoded_folder(name: str) -> str:
    return _ENCODED.sub(lambda match: _decoded(match[1]) if match[1] else "&", name)


def encoded_folder(name: str) -> str:
    return _SPECIAL.sub(lambda match: "&-" if match[0] == "&" else f"&{_encoded(match[0])}-", name)


def _decoded(part: str) -> str:
    padded = part.replace(",", "/") + "=" * (-len(part) % 4)
    try:
        return b64decode(padded, validate=True).decode("utf-16-be")
    except (Error, UnicodeDecodeError):  # not valid: keep it as received
        return f"&{part}-"


def _encoded(text: str) -> str:
    return b64encode(text.encode("utf-16-be")).decode("ascii").rstrip("=").replace("/", ",")
