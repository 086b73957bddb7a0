"""The one check that every text from outside passes: whole Unicode without characters that no store can keep."""

from __future__ import annotations

from app.errors import InputError


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
