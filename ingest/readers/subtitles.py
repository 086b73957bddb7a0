"""Subtitles (SubRip, WebVTT, SubViewer, Advanced SubStation, TTML) and lyrics (LRC): the spoken text, without cue
numbers, times and markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import ParseError

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.text import decode_text
from ingest.readers.xml import line_of, local_name, parse_xml, title_of

_TIME = r"(?:\d+:)?\d{1,2}:\d\d(?:[.,:]\d{1,3})?"
_EXACT_TIME = _TIME.removesuffix("?")  # also hours:minutes:seconds; `10:30 -> 11:45` may be spoken
_TIMES = re.compile(rf"\s*(?:{_TIME}\s*-->\s*{_TIME}|{_EXACT_TIME}\s*(?:->|,)\s*{_EXACT_TIME})(?:\s.*)?")
_SPEAKER = re.compile(r"<v(?:\.[\w.-]++)?\s++([^<>]++)>")
_SIGNS = re.compile(r"</?[a-zA-Z][^<>]*+>|<\d[\d:.]*+>|\{\\[^{}]*+\}")
_BLOCKS = re.compile(r"\n(?:[ \t]*+\n)+")
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|\Z)")
_TIMED_XML = re.compile(r"\s*+(?:<\?xml[^>]*+>)?+(?>\s*<!--.*?-->)*+\s*+<(?:\w+:)?tt[\s>]", re.DOTALL)
_SCRIPT = re.compile(r"\s*\[Script Info\]", re.IGNORECASE)
_SCRIPT_TITLE = re.compile(r"^Title:(.*)", re.MULTILINE)
_SCRIPT_FORMAT = re.compile(r"^\[Events\][^\[]*?^Format:(.*)", re.MULTILINE)
_SCRIPT_LINE = re.compile(r"^Dialogue:(.*)", re.MULTILINE)
_SCRIPT_DRAWING = re.compile(r"\\p[1-9]")
_SCRIPT_SIGNS = re.compile(r"\{[^{}]*+\}")
_SCRIPT_BREAKS = re.compile(r"\\[Nnh]")
_USUAL_FIELDS = 10
_SUNG = re.compile(r"^\s*+(?:\[\d{1,3}:\d\d(?:[.:]\d{1,3})?\]\s*+)++(.*)", re.MULTILINE)
_SONG_TITLE = re.compile(r"^\s*\[ti:([^\]]*)\]", re.MULTILINE | re.IGNORECASE)
_LONGEST_NUMBER = 10
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", '"', "”", "»")


def read_subtitles(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    decoded = decode_text(data, charset)
    title, cues = _read(decoded.text)
    if not cues:  # another kind of text
        return ExtractedText(decoded.text, "", "text/plain", decoded.metadata)
    return ExtractedText(_joined(cues), title, "text/vtt", decoded.metadata)


def _read(text: str) -> tuple[str, list[str]]:
    """Title and cues; no cue for another kind of text."""
    if _TIMED_XML.match(text):
        return _read_timed_xml(text)
    if _SCRIPT.match(text):
        return _first(_SCRIPT_TITLE, text), list(filter(None, _lines_of_script(text)))
    if cues := list(_cues(text)):
        first = text.partition("\n")[0]
        return first.removeprefix("WEBVTT").strip(" \t-") if first.startswith("WEBVTT") else "", cues
    sung = [_spoken([line[1]]) for line in _SUNG.finditer(text)]
    return _first(_SONG_TITLE, text), list(filter(None, sung))


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1].strip() if found else ""


def _read_timed_xml(text: str) -> tuple[str, list[str]]:
    try:
        root = parse_xml(text.encode())
    except ParseError:
        return "", []
    return title_of(root), [line for each in root.iter() if local_name(each) == "p" and (line := line_of(each))]


def _lines_of_script(text: str) -> Iterator[str]:
    """What is spoken: the last of the fields that `Format` names. It may hold commas."""
    fields = _first(_SCRIPT_FORMAT, text).count(",") or _USUAL_FIELDS - 1
    for line in _SCRIPT_LINE.finditer(text):
        spoken = line[1].split(",", fields)[-1]
        if not any(map(_SCRIPT_DRAWING.search, _SCRIPT_SIGNS.findall(spoken))):
            yield " ".join(_SCRIPT_BREAKS.sub(" ", _SCRIPT_SIGNS.sub("", spoken)).split())


def _cues(text: str) -> Iterator[str]:
    """Yields the text of each cue: all lines up to the next cue, since many files have blank lines within cues, or none
    between them."""
    is_webvtt = text.startswith("WEBVTT")
    lines = text.split("\n")
    times = [number for number, line in enumerate(lines) if _TIMES.fullmatch(line)]
    numbers = _Numbers()
    before = numbers.without(lines[: times[0]], is_webvtt) if times else []
    if before and not is_webvtt:
        yield from filter(None, [_spoken(before)])
    for time, following in zip(times, [*times[1:], None], strict=False):
        own = lines[time + 1 :] if following is None else numbers.without(lines[time + 1 : following], is_webvtt)
        first, *others = [block for block in _BLOCKS.split("\n".join(own)) if block.strip()] or [""]
        shown = [block for block in others if not (is_webvtt and _NO_CUE.match(block))]
        if spoken := _spoken([first, *shown]):
            yield spoken


class _Numbers:
    """The numbers of cues."""

    def __init__(self) -> None:
        self._is_first = True
        self._last: int | None = None

    def without(self, lines: Sequence[str], is_webvtt: bool) -> Sequence[str]:
        """The lines before the times of a cue, without its number or name. After a line of the cue before, only the
        next number is one: others are spoken."""
        last = lines[-1].strip() if lines else ""
        is_separate = not lines[-2].strip() if len(lines) > 1 else self._is_first
        number = int(last) if last.isdecimal() and len(last) < _LONGEST_NUMBER else None
        is_next = number is not None and number - 1 == self._last
        is_identifier = is_next or (is_separate and (is_webvtt or last.isdecimal()))
        self._is_first, self._last = False, self._last if number is None else number
        return lines[:-1] if is_identifier else lines


def _spoken(lines: Sequence[str]) -> str:
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
