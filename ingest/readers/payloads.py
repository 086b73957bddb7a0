"""Files that are written as text (base64), which no program shows as text: they are left out. Pictures and fonts have
no text that could be missed; every other file is noted.

Formats with values (XML, JSON, tables) ask for each value. Texts (Markdown, YAML, source code) are searched for data
URIs, for lines of base64 and for long words of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ingest.readers.skipped import Skipped

_FEWEST = 200  # characters of a payload
_FEWEST_OF_LINE = 40
_FEWEST_OF_LAST_LINE = 20  # without a sign that tells it from a word
_LONGEST_LINE = 1_000_000  # of a text; longer ones are searched in pieces
_LINE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
# JPEG, PNG, GIF, WEBP, BMP, TIFF, SVG; fonts.
_PICTURE = re.compile(r"/9j/|iVBORw|R0lGOD|UklGR|Qk[0-9A-Za-z]|SUkq|TU0A|PHN2Zy|d09G[MR]|AAEAAAA|T1RUTw")
_PICTURE_TYPE = re.compile(r"data:(?:image|font|application/(?:x-)?font)", re.IGNORECASE)
_KINDS = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))  # without them it may be a sequence of genes
_ADDRESS = re.compile(r"(data:[\w.+-]{1,60}/[\w.+-]{1,60}(?:;[\w.=+-]{1,60})*;base64,)[A-Za-z0-9+/=]*+")
_CANDIDATE = re.compile(rf"[A-Za-z0-9+/]{{{_FEWEST_OF_LINE}}}|data:")
_WORD = re.compile(rf"(?<![\w+/.%-])[A-Za-z0-9+/]{{{_FEWEST},}}+={{0,2}}(?![\w%-])")
# A line of base64, also as a string of source code.
_TEXT_LINE = re.compile(
    rf"[ \t]*+[\"']?(?P<signs>[A-Za-z0-9+/]{{{_FEWEST_OF_LINE},}}+={{0,2}})(?:\\n)?[\"']?[ \t]*+[,;+\\]?[ \t]*+\n?"
)
_LAST_LINE = re.compile(r"[ \t]*+[\"']?(?P<signs>[A-Za-z0-9+/]++={0,2})(?:\\n)?[\"']?[ \t]*+[,;+)\\]{0,2}[ \t]*+\n?")
_ONE_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ADDRESS_WITHIN = 2_000  # characters before a word, in which an address may begin
_LETTERS_ALONE = re.compile("[A-Za-z]+|[0-9]+")


def is_payload(value: str) -> bool:
    """Whether a value of XML or JSON is base64, in lines of at least 40 characters."""
    if len(value) < _FEWEST or not all(kind.search(value) for kind in _KINDS):
        return False
    *lines, last = value.partition(";base64,")[2].split() or value.split() or [""]
    return all(len(line) >= _FEWEST_OF_LINE for line in lines or [last]) and all(map(_LINE.fullmatch, (*lines, last)))


class Payloads:
    """Leaves out the files of one document, and notes them in `skipped`."""

    def __init__(self) -> None:
        self.skipped = Skipped("parts")

    def without(self, value: str, place: str) -> str:
        """The value of a field; empty if it is a file."""
        if not is_payload(value):
            return value
        self._note(value.partition(";base64,")[2] or value, place)
        return ""

    def texts(self, texts: Iterable[str], place: str = "") -> Iterator[str]:
        """A text that arrives in pieces. Notes name the line, unless `place` is given."""
        run: list[str] = []  # lines of base64 that may be a file
        number = begin = 0  # lines before this one, and before the run
        for stretch in _stretches(texts):
            if not run and not _CANDIDATE.search(stretch):
                yield stretch
                number += stretch.count("\n")
                continue
            shown: list[str] = []
            for line in _ONE_LINE.findall(stretch):
                if not _is_next(run, line):
                    is_end = bool(run) and _is_last(run, line)
                    shown += self._shown([*run, line] if is_end else run, place or f"Line {begin + 1}")
                    run = []
                    if is_end:
                        number += line.count("\n")
                        continue
                if _is_next(run, line):
                    begin = begin if run else number
                    run.append(line)
                else:
                    shown.append(self._without_words(line, place or f"Line {number + 1}"))
                number += line.count("\n")
            yield "".join(shown)
        yield "".join(self._shown(run, place or f"Line {begin + 1}"))

    def text(self, text: str, place: str) -> str:
        """A whole text, which stands at `place`."""
        return "".join(self.texts([text], place)) if _CANDIDATE.search(text) else text

    def _shown(self, run: list[str], place: str) -> list[str]:
        """The lines, unless they are a file."""
        signs = "".join(match["signs"] for line in run if (match := _LAST_LINE.fullmatch(line)))
        if len(signs) < _FEWEST or not all(kind.search(signs) for kind in _KINDS):
            return run
        self._note(signs, place)
        return []

    def _without_words(self, line: str, place: str) -> str:
        def address(match: re.Match[str]) -> str:
            if len(match[0]) > len(match[1]) and not _PICTURE_TYPE.match(match[0]):
                self._note(match[0][len(match[1]) :], place)
            return match[1]

        def word(match: re.Match[str]) -> str:
            before = line[max(0, match.start() - _ADDRESS_WITHIN) : match.start()].rpartition(" ")[2]
            if "://" in before or not all(kind.search(match[0]) for kind in _KINDS):
                return match[0]
            self._note(match[0], place)
            return ""

        line = _ADDRESS.sub(address, line) if "data:" in line else line
        return _WORD.sub(word, line) if len(line) >= _FEWEST else line

    def _note(self, payload: str, place: str) -> None:
        if not _PICTURE.match(payload.lstrip()):
            self.skipped.note(place, "It holds a file in base64.")


def _is_next(run: list[str], line: str) -> bool:
    """Whether the line may go on with a file: all lines but the last are of equal length, without padding."""
    match = _TEXT_LINE.fullmatch(line)
    if match is None or len(match["signs"]) >= _LONGEST_LINE // 2:
        return False
    before = _TEXT_LINE.fullmatch(run[-1]) if run else None
    return before is None or (len(match["signs"]) == len(before["signs"]) and not before["signs"].endswith("="))


def _is_last(run: list[str], line: str) -> bool:
    """Whether the line ends the file: it is shorter, and no word or number."""
    before, match = _LAST_LINE.fullmatch(run[-1]), _LAST_LINE.fullmatch(line)
    if before is None or match is None or before["signs"].endswith("=") or len(match["signs"]) >= len(before["signs"]):
        return False
    return len(match["signs"]) >= _FEWEST_OF_LAST_LINE or not _LETTERS_ALONE.fullmatch(match["signs"])


def _stretches(texts: Iterable[str]) -> Iterator[str]:
    """The text, cut at ends of lines; lines beyond a million characters in pieces."""
    held: list[str] = []
    length = 0
    for text in texts:
        end = text.rfind("\n") + 1
        if end or length + len(text) > _LONGEST_LINE:
            end = end or len(text)
            yield "".join([*held, text[:end]])
            held, length = [], 0
        held.append(text[end:])
        length += len(held[-1])
    yield "".join(held)
