"""The checks that texts from outside pass: whole Unicode without characters that no store can keep, bounded names."""

from __future__ import annotations

from app.errors import InputError

MAX_URI_BYTES = 2000  # PostgreSQL indexes no more than 2,704 bytes of a key


def require_text(text: str, *, name: str) -> str:
    """`text` itself. Raises InputError on NUL and on lone surrogates, which neither SQL nor UTF-8 can hold."""
    if "\x00" in text:
        raise InputError(f"The {name} holds a NUL character at position {text.index(chr(0))}; remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputError(
            f"The {name} is not valid Unicode at position {error.start}: lone surrogate U+{code:04X}. Send UTF-8."
        ) from None
    return text


def require_short_uri(uri: str) -> str:
    """`uri` itself. Raises InputError."""
    if len(uri.encode("utf-8", "backslashreplace")) > MAX_URI_BYTES:
        raise InputError(f"The URI {uri[:80]!r}… is longer than {MAX_URI_BYTES} bytes: shorten it.")
    return uri
