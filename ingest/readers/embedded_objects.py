"""Objects of other programs in Office files of before 2007, as files that their own readers can read.

Word and Excel keep each in a folder of their compound file, PowerPoint in a record of its stream ([MS-PPT])."""

from __future__ import annotations

import io
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ingest.readers.compound_files import compound_file, folder_of
from ingest.readers.containers import open_compound_file
from ingest.readers.errors import parser_errors
from ingest.readers.parts import Block, blocks_of
from ingest.readers.shown_files import PACKAGES, ShownFiles

_WORD_POOL, _EXCEL_OBJECT = "ObjectPool", "MBD"
# Streams of files that Office can embed.
_MAIN = ("WordDocument", "Workbook", "Book", "PowerPoint Document")
# Records of a presentation.
_HEAD = 8  # bytes of a record's version, kind and length
_CONTAINER = 0xF
_SLIDES, _SLIDE, _OBJECT, _SHOWN, _STORED = 0x0FF0, 0x03F3, 0x0FC3, 0x0BC1, 0x1011
_EDIT, _PLACES = 0x0FF5, 0x1772
_BINARY = 0x138B  # tags of programs, which hold records
_MOST_WALKS = 3  # through all records
_OF_SLIDES, _OF_NOTES = 0, 2  # instances of the lists of slides and notes; that of masters is 1
_COMPRESSED = 1  # instance of a stored object
_MOST_EDITS = 1_000
_MOST_NAMES = 10_000  # of objects on slides: many slides may show the same one
_MOST_OBJECTS = 500  # of a document, or of a slide, that are read


class ObjectTexts(NamedTuple):
    """The texts of objects, and how many of these were read and not read."""

    blocks: list[Block]
    read: int
    unread: int


class EmbeddedObjects:
    """The objects in the folders of a Word or Excel file: a host for `ShownFiles`."""

    def __init__(self, data: bytes) -> None:
        self.left_out: list[str] = []
        self._size = len(data)
        self._streams: dict[str, list[list[str]]] = {}  # the places of the streams in each object's folder
        try:
            self._compound = open_compound_file(io.BytesIO(data))
            folders = self._compound.listdir(streams=False, storages=True)
            streams = self._compound.listdir()
        except parser_errors():
            return  # the libraries say what is damaged
        self._streams = {"/".join(path): [] for path in folders if len(path) == _depth(path)}
        for path in streams:
            self._streams.get("/".join(path[: _depth(path)]), []).append(path)

    @property
    def names(self) -> list[str]:
        return list(self._streams)

    def read(self, part: str) -> bytes:
        path, places = part.split("/"), self._streams[part]
        depth = len(path)
        own = {place[depth].lower(): place for place in places if len(place) == depth + 1}
        package = next((own[name.lower()] for name in PACKAGES if name.lower() in own), None)
        if package:
            return bytes(self._compound.openstream(package).read())
        if not any(name.lower() in own for name in _MAIN):
            raise KeyError(f"{part} holds no file of Office.")
        return compound_file(folder_of(self._compound, path, self._size, places))

    def blocks(self, files: ShownFiles) -> ObjectTexts:
        return _blocks(self.names, files)


def _depth(path: list[str]) -> int:
    """The folders to the object in which this place is; 0 for none."""
    return 2 if path[0] == _WORD_POOL else 1 if path[0].startswith(_EXCEL_OBJECT) else 0


def _blocks(names: list[str], files: ShownFiles) -> ObjectTexts:
    texts = [files.text(name) for name in names[:_MOST_OBJECTS]]
    read = [text for text in texts if text is not None]
    return ObjectTexts([block for text in read for block in blocks_of(text)], len(read), len(names) - len(read))


class SlideRecord(NamedTuple):
    kind: int
    instance: int
    body: int  # where it begins
    end: int


class ListedSlide(NamedTuple):
    place: int | None  # of its record
    identity: int


class SlideObjects:
    """The objects of a presentation: a host for `ShownFiles`. Without objects if the file is damaged."""

    def __init__(self, data: bytes, most_bytes: int) -> None:
        self.left_out: list[str] = []
        self._left = most_bytes  # that may still be unpacked
        self._stream = b""
        self._places: dict[int, int] = {}
        self._by_slide: Mapping[int, list[str]] = {}  # names of the objects of each slide, from 0
        self.slides: list[ListedSlide] = []
        self.notes: list[int] = []  # places of the notes
        self.document = 0  # place of the record of the presentation
        try:
            with open_compound_file(io.BytesIO(data)) as compound:
                self._stream = compound.openstream("PowerPoint Document").read()
                user = compound.openstream("Current User").read()
            self._records_left = _MOST_WALKS * len(self._stream) // _HEAD  # no two slides share their bytes
            self._places, document = self._edits(struct.unpack_from("<I", user, 16)[0])
            self.document = self._places[document]
            self._by_slide = self._shown()
        except parser_errors():
            self._by_slide = {}

    def read(self, part: str) -> bytes:
        record = self._record(self._places[int(part.rpartition(" ")[2])])
        if record.kind != _STORED:
            raise KeyError(f"{part} is no embedded object.")
        data = self._stream[record.body : record.end]
        if record.instance == _COMPRESSED:
            data = zlib.decompressobj().decompress(data[4:], self._left)
        self._left -= len(data)
        if self._left <= 0:
            raise ValueError("The embedded objects unpack to more than the limit.")
        return data

    def blocks(self, slide: int, files: ShownFiles) -> ObjectTexts:
        """Of the objects of a slide; slides count from 0."""
        return _blocks(self._by_slide.get(slide, []), files)

    def _edits(self, at: int) -> tuple[dict[int, int], int]:
        """The places of the parts of the presentation by their numbers, the newest first, and the number of the part
        of the document."""
        places, document, tables = dict[int, int](), 0, set[int]()
        left = len(self._stream) // 4  # places in all tables: no two tables share their bytes
        for _ in range(_MOST_EDITS):
            edit = self._record(at)
            if edit.kind != _EDIT:
                raise ValueError("The list of edits is damaged.")
            before, places_at, number = struct.unpack_from("<III", self._stream, edit.body + 8)
            document = document or number
            if places_at in tables:
                break
            tables.add(places_at)
            for identity, place in self._listed(places_at):
                left -= 1
                if left < 0:
                    raise ValueError("The lists of parts overlap.")
                places.setdefault(identity, place)
            if not before or before >= at:
                break
            at = before
        return places, document

    def _listed(self, at: int) -> Iterator[tuple[int, int]]:
        record = self._record(at)
        if record.kind != _PLACES:
            raise ValueError("The list of parts is damaged.")
        at = record.body
        while at + 4 <= record.end:
            (head,) = struct.unpack_from("<I", self._stream, at)
            first, count = head & 0xFFFFF, head >> 20
            yield from enumerate(struct.unpack_from(f"<{count}I", self._stream, at + 4), first)
            at += 4 + 4 * count

    def bytes_of(self, record: SlideRecord) -> bytes:
        return self._stream[record.body : record.end]

    def _shown(self) -> dict[int, list[str]]:
        """The names of the objects that each slide shows: they end with the number of the object's part."""
        slides, stored, instance = list[int](), dict[int, int](), _OF_SLIDES
        for record in self.records(self.document):
            if record.kind == _SLIDES:
                instance = record.instance
            elif record.kind == _SLIDE and instance in (_OF_SLIDES, _OF_NOTES):
                part, identity = struct.unpack_from("<I8xI", self._stream, record.body)
                if instance == _OF_NOTES:
                    self.notes += [self._places[part]] if part in self._places else []
                    continue
                slides.append(part)
                self.slides.append(ListedSlide(self._places.get(part), identity))
            elif record.kind == _OBJECT:
                _, _, identity, _, part = struct.unpack_from("<5I", self._stream, record.body)
                stored[identity] = part
        shown: dict[int, list[str]] = defaultdict(list)
        parts = dict[int, list[int]]()  # place of a slide → the parts of its objects
        left = _MOST_NAMES
        for number, slide in enumerate(slides):
            if slide not in self._places:
                continue
            place = self._places[slide]
            if place not in parts:
                parts[place] = list(self._parts(place, stored))
            for part in parts[place][:left]:
                left -= 1
                shown[number].append(f"slide {number + 1}, object {part}")
        return shown

    def _parts(self, slide: int, stored: Mapping[int, int]) -> Iterator[int]:
        for record in self.records(slide):
            if record.kind == _SHOWN:
                (identity,) = struct.unpack_from("<I", self._stream, record.body)
                if identity in stored:
                    yield stored[identity]

    def records(self, at: int) -> Iterator[SlideRecord]:
        """The records within the one at `at`, those of containers after them. Raises struct.error or ValueError for
        damage."""
        outer = self._record(at)
        at = outer.body
        while at + _HEAD <= outer.end:
            record = self._record(at)
            self._records_left -= 1
            if self._records_left < 0:
                raise ValueError("The slides overlap.")
            yield record
            is_container = self._stream[at] & 0xF == _CONTAINER or record.kind == _BINARY
            at = record.body if is_container else record.end

    def _record(self, at: int) -> SlideRecord:
        head, kind, size = struct.unpack_from("<HHI", self._stream, at)
        return SlideRecord(kind, head >> 4, at + _HEAD, at + _HEAD + size)
