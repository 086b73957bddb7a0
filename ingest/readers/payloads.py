"""Pictures and other bytes that are written as text (base64), which no program shows as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FEWEST = 200  # characters of a value
_FEWEST_OF_LINE = 40
_LINE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
# JPEG, PNG, GIF, WEBP, BMP, TIFF, SVG.
_PICTURE = re.compile(r"/9j/|iVBORw|R0lGOD|UklGR|Qk[0-9A-Za-z]|SUkq|TU0A|PHN2Zy")
_KINDS = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))  # without them it may be a sequence of genes
_ADDRESS = re.compile(r"(data:[\w.+-]{1,60}/[\w.+-]{1,60}(?:;[\w.=+-]{1,60})*;base64,)[A-Za-z0-9+/=]*+")
_OPEN_ADDRESS = re.compile(r"data:[\w.+/;=-]{0,300}(?:base64,[A-Za-z0-9+/=]*+)?\Z")
_BEGIN = re.compile(r"d(?:a(?:ta?)?)?\Z")
_END = re.compile(r"[^A-Za-z0-9+/=]")


def is_payload(value: str) -> bool:
    """Whether a value of XML or JSON is base64, in lines of at least 40 characters."""
    if len(value) < _FEWEST or not all(kind.search(value) for kind in _KINDS):
        return False
    *lines, last = value.partition(";base64,")[2].split() or value.split() or [""]
    return all(len(line) >= _FEWEST_OF_LINE for line in lines or [last]) and all(map(_LINE.fullmatch, (*lines, last)))


def is_picture(payload: str) -> bool:
    """Whether the bytes are a picture. It is not missed in the text; another file is."""
    return bool(_PICTURE.match((payload.partition(";base64,")[2] or payload).lstrip()))


def without_payloads(texts: Iterable[str]) -> Iterator[str]:
    """Leaves out the bytes of data URIs, as in Markdown that a program exported with its pictures."""
    held, is_inside = "", False
    for text in texts:
        if is_inside:
            end = _END.search(text)
            if end is None:
                continue
            text, is_inside = text[end.start() :], False
        text = _ADDRESS.sub(r"\1", held + text)
        held = ""
        begin = text.rfind("data:")
        last = _OPEN_ADDRESS.match(text, begin) if begin >= 0 else None
        last = last or _BEGIN.search(text, max(0, len(text) - 4))
        if last:
            is_inside = "base64," in last[0]
            kept = last.end() if is_inside else last.start()
            text, held = text[:kept], text[kept:]
        yield text
    yield held
