"""Subtitles (SubRip, WebVTT): the spoken text, without cue numbers, times and markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.text import decode_text

_TIMES = re.compile(r"\s*(?:\d+:)?\d\d?:\d\d[.,]\d{1,3}\s*-->\s*(?:\d+:)?\d\d?:\d\d[.,]\d{1,3}.*")
_SPEAKER = re.compile(r"<v(?:\.[\w.-]++)?\s++([^<>]++)>")
_SIGNS = re.compile(r"</?[a-zA-Z][^<>]*+>|<\d[\d:.]*+>|\{\\[^{}]*+\}")
_BLOCKS = re.compile(r"\n[ \t]*\n")
_NO_CUES = ("NOTE", "STYLE", "REGION")
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", '"', "”", "»")


def read_subtitles(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    decoded = decode_text(data, charset)
    cues = list(_cues(decoded.text))
    if not cues:  # another kind of text
        return ExtractedText(decoded.text, "", "text/plain", decoded.metadata)
    first = decoded.text.partition("\n")[0]
    title = first.removeprefix("WEBVTT").strip(" \t-") if first.startswith("WEBVTT") else ""
    return ExtractedText(_joined(cues), title, "text/vtt", decoded.metadata)


def _cues(text: str) -> Iterator[str]:
    for block in _BLOCKS.split(text):
        lines = block.strip("\n").split("\n")
        if lines[0].startswith(_NO_CUES):
            continue
        times = next((number for number, line in enumerate(lines) if _TIMES.fullmatch(line)), None)
        if times is not None and (spoken := _spoken(lines[times + 1 :])):
            yield spoken


def _spoken(lines: list[str]) -> str:
    text = _SPEAKER.sub(r"\1: ", " ".join(lines))
    return " ".join(html.unescape(_SIGNS.sub("", text)).split())


def _joined(cues: list[str]) -> str:
    """Joins cues. A paragraph ends only after a sentence, which may span cues. Live captions repeat their last line;
    repeats are dropped."""
    text = before = ""
    for cue in cues:
        if cue == before:
            continue
        if before and cue.startswith(before):
            cue, whole = cue[len(before) :].strip(), cue
        else:
            whole = cue
        before = whole
        text += ("" if not text else "\n\n" if text.endswith(_SENTENCE_ENDS) else "\n") + cue
    return text
