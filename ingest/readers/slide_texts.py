"""What the library for PowerPoint from before 2007 does not always give: notes, comments, and footers ([MS-PPT])."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping

from ingest.readers.embedded_objects import SlideObjects, SlideRecord
from ingest.readers.parts import Block

_MARGINS, _SHOWN_MARGINS, _STRING = 0x0FD9, 0x0FDA, 0x0FBA
_COMMENT = 0x2EE0
_NOTES_OF, _WIDE_TEXT, _NARROW_TEXT = 0x03F1, 0x0FA0, 0x0FA8
_OF_SLIDES = 3  # instance of margins, not of notes and handouts
# Instances of strings: of margins, with the bit that says whether they are shown; and of comments.
_MARGIN_BITS = {0: 1 << 2, 1: 1 << 4, 2: 1 << 5}
_AUTHOR, _TEXT = 0, 1


def beside_slides(objects: SlideObjects) -> Mapping[int, list[Block]]:
    """The notes, comments and footers of each slide, by its number from 0; without those behind damage."""
    beside: dict[int, list[Block]] = defaultdict(list)
    numbers = {slide.identity: number for number, slide in enumerate(objects.slides)}
    try:
        for place in objects.notes:
            slide, texts = _notes(objects, place)
            if slide in numbers:
                beside[numbers[slide]] += [Block(f"Notes: {text}") for text in texts]
        for number, listed in enumerate(objects.slides):
            if listed.place is not None:
                beside[number] += _of_slide(objects, listed.place)
        if objects.slides:
            beside[0] += _margins(objects, objects.document, _OF_SLIDES)
    except (struct.error, ValueError):
        pass  # what was found before the damage is whole
    return beside


def _notes(objects: SlideObjects, place: int) -> tuple[int, list[str]]:
    """The identity of the slide, and its notes."""
    slide, texts = -1, list[str]()
    for record in objects.records(place):
        data = objects.bytes_of(record)
        if record.kind == _NOTES_OF:
            (slide,) = struct.unpack_from("<I", data)
        elif record.kind in (_WIDE_TEXT, _NARROW_TEXT):
            text = data.decode("utf-16-le" if record.kind == _WIDE_TEXT else "latin-1", "replace")
            texts.append(text.replace("\r", "\n").replace("\v", "\n").strip())
    return slide, texts


def _of_slide(objects: SlideObjects, place: int) -> Iterator[Block]:
    comments: list[dict[int, str]] = []
    end = 0
    for record in objects.records(place):
        if record.kind == _COMMENT:
            comments.append({})
            end = record.end
        elif record.kind == _STRING and record.end <= end:
            comments[-1][record.instance] = _string(objects, record)
    for comment in comments:
        if text := comment.get(_TEXT, "").strip():
            author = " ".join(comment.get(_AUTHOR, "").split())
            yield Block(f"Comment by {author}: {text}" if author else f"Comment: {text}")
    yield from _margins(objects, place, 0)


def _margins(objects: SlideObjects, place: int, instance: int) -> Iterator[Block]:
    """The footers that are declared in the record at `place`, where they are shown."""
    end = shown = 0
    for record in objects.records(place):
        if record.kind == _MARGINS:
            end = record.end if record.instance == instance else 0
            shown = 0
        elif record.kind == _SHOWN_MARGINS and record.end <= end:
            shown = struct.unpack_from("<xxH", objects.bytes_of(record))[0]
        elif record.kind == _STRING and record.end <= end and shown & _MARGIN_BITS.get(record.instance, 0):
            yield Block(_string(objects, record).strip())


def _string(objects: SlideObjects, record: SlideRecord) -> str:
    return objects.bytes_of(record).decode("utf-16-le", "replace")
