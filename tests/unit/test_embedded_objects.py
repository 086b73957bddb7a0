"""Embedded files in Office files of before 2007, and the compound files that are made of them."""

from __future__ import annotations

import io
import random
import struct

import olefile
import pytest
from bytes_reader import BytesReader
from other_office_samples import excel_97, old_word, powerpoint_97
from outlook_files import compound_file as small_compound_file
from reader_fuzz import CHANGES, PROCESS_LIMITS
from sample_files import workbook

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.compound_files import Tree, compound_file, folder_of
from ingest.readers.document import read_document
from ingest.readers.embedded_objects import EmbeddedObjects, SlideObjects
from ingest.readers.limits import ReadLimits
from ingest.readers.shown_files import ShownFiles

SHEET = excel_97([["City", "Land"], ["Rome", "Italy"]], ["General"])
NEW_SHEET = workbook({"S": [["City", "Land"], ["Rome", "Italy"]]})
TEXT = old_word("Paris is old.\r")
PACKAGE = small_compound_file({"Package": b"no file of Office"})


def tree_of(data: bytes) -> dict[str, bytes | Tree]:
    with olefile.OleFileIO(io.BytesIO(data)) as compound:
        return dict(folder_of(compound, [], len(data)))


def objects(*files: bytes) -> dict[str, bytes | Tree]:
    return {f"_{number}": tree_of(data) for number, data in enumerate(files)}


def hosts(*files: bytes) -> dict[str, bytes]:
    """A document, a workbook and a presentation that show these compound files."""
    pool = objects(*files)
    workbook_tree = tree_of(excel_97([["Before"]], ["General"])) | {f"MBD{name}": each for name, each in pool.items()}
    slides = [("Before", "1"), *[("Slide", str(number)) for number in range(len(files))]]
    return {
        "a.doc": compound_file(tree_of(old_word("Before\r")) | {"ObjectPool": pool}),
        "a.xls": compound_file(workbook_tree),
        "a.ppt": powerpoint_97(*slides, objects={number + 1: each for number, each in enumerate(files)}),
    }


def read(data: bytes, uri: str, limits: ReadLimits | None = None) -> ExtractedText:
    return read_document(data, uri=uri, limits=limits or ReadLimits())


HOSTS = pytest.mark.parametrize("host", ["a.doc", "a.xls", "a.ppt"])


@HOSTS
def test_embedded_files_are_read(host: str) -> None:
    found = read(hosts(SHEET, small_compound_file({"Package": NEW_SHEET[:0]}), TEXT)[host], host)
    assert "City: Rome; Land: Italy" in found.text
    assert "Paris is old." in found.text
    assert found.metadata["skipped"] == "Embedded objects that are not read: 1."


def test_todays_formats_within_old_objects_are_read() -> None:
    for stream in ("Package", "package", "EmbeddedOdf"):
        tree = tree_of(old_word("Before\r")) | {"ObjectPool": {"_1": {stream: NEW_SHEET, "\x01Ole": b"x"}}}
        assert read(compound_file(tree), "a.doc").text.endswith("City: Rome; Land: Italy")


def test_objects_of_a_presentation_stand_on_their_slides() -> None:
    found = read(hosts(SHEET, TEXT)["a.ppt"], "a.ppt")
    pages = [found.text[a:b] for a, b in zip(found.page_starts, [*found.page_starts[1:], None], strict=True)]
    assert ["Rome" in page for page in pages] == [False, True, False]
    assert ["Paris" in page for page in pages] == [False, False, True]


def test_the_newest_edit_of_a_presentation_is_read() -> None:
    tree = tree_of(powerpoint_97(("A", "1"), objects={0: SHEET}))
    stream, user = tree["PowerPoint Document"], tree["Current User"]
    assert isinstance(stream, bytes)
    assert isinstance(user, bytes)
    (edit_at,) = struct.unpack_from("<I", user, 16)
    part = struct.pack("<HHI", 0, 0x1011, len(TEXT)) + TEXT
    places = struct.pack("<HHI", 0, 0x1772, 8) + struct.pack("<II", 3 | 1 << 20, len(stream))
    edit = bytearray(stream[edit_at:])
    struct.pack_into("<II", edit, 16, edit_at, len(stream) + len(part))
    changed = stream + part + places
    newest = compound_file({
        "PowerPoint Document": changed + bytes(edit),
        "Current User": user[:16] + struct.pack("<I", len(changed)) + user[20:],
    })  # fmt: skip
    text = read(newest, "a.ppt").text
    assert ("Paris" in text, "Rome" in text) == (True, False)


@HOSTS
def test_other_objects_are_counted(host: str) -> None:
    found = read(hosts(PACKAGE, small_compound_file({"Equation Native": b"x"}))[host], host)
    assert (found.metadata["skipped_parts"], found.metadata["skipped"]) == (2, "Embedded objects that are not read: 2.")


def test_a_pool_may_have_very_many_objects() -> None:
    word = old_word("Before\r")
    pool: Tree = {f"_{number}": {"Equation Native": b"x", "\x01Ole": b"x"} for number in range(1_200)}
    data = compound_file(tree_of(word) | {"ObjectPool": pool})
    found = EmbeddedObjects(data)
    texts = found.blocks(ShownFiles(ReadLimits(), read_document).within(found, 1_000))
    assert texts.unread == 1_200


def powerpoint_record(kind: int, body: bytes, head: int = 0) -> bytes:
    return struct.pack("<HHI", head, kind, len(body)) + body


@pytest.mark.parametrize("step", [0, 8])  # between the places of slides: the same one, or one within the other
def test_slides_without_end_have_few_objects(step: int) -> None:
    count = 2_000
    listed = b"".join(powerpoint_record(0x03F3, struct.pack("<5I", 2 + n, 0, 0, 0, 0)) for n in range(count))
    document = powerpoint_record(0x0FF0, listed, 0xF) + powerpoint_record(0x0FC3, struct.pack("<5I", 0, 0, 7, 0, 1))
    document = powerpoint_record(0x03E8, document, 0xF)
    shown = powerpoint_record(0x0BC1, struct.pack("<I", 7)) * (10 if step else count)
    shown = struct.pack("<HHI", 0xF, 0, 0) * (count if step else 0) + shown
    places = struct.pack("<II", 1 | 1 << 20, 0)
    for n in range(count):
        places += struct.pack("<II", 2 + n | 1 << 20, len(document) + step * n)
    stream = document + b"".join(
        struct.pack("<HHI", 0xF, 0x03EE, len(shown) + 8 * (count - 1 - n if step else 0))
        for n in range(count if step else 1)
    )
    stream += shown
    edit = powerpoint_record(0x0FF5, struct.pack("<5I", 0, 0, 0, len(stream), 1))
    user = bytes(16) + struct.pack("<I", len(stream) + 8 + len(places))
    data = compound_file(
        {"PowerPoint Document": stream + powerpoint_record(0x1772, places) + edit, "Current User": user}
    )
    objects = SlideObjects(data, 1_000_000)
    assert sum(len(names) for names in objects._by_slide.values()) == (0 if step else 10_000)


@HOSTS
def test_embedded_text_too_long_beside_its_host_is_left_out(host: str) -> None:
    data = hosts(SHEET)[host]
    length = len(read(data, host).text)
    found = read(data, host, ReadLimits(max_characters=length - 1))
    assert "Before" in found.text
    assert "Rome" not in found.text
    assert found.metadata["skipped_parts"] == 1


@HOSTS
def test_objects_within_objects_end_at_the_limit_and_are_told(host: str) -> None:
    inner = SHEET
    for _ in range(4):
        inner = hosts(inner)["a.doc"]
    found = read(hosts(inner)[host], host)
    assert "Rome" not in found.text
    assert "Embedded objects that are not read" in str(found.metadata["skipped"])


def test_unpacked_objects_have_a_limit() -> None:
    data = powerpoint_97(("Before", "1"), objects={0: SHEET + bytes(2_000_000)})
    assert "Rome" in read(data, "a.ppt").text
    found = read(data, "a.ppt", ReadLimits(max_expanded_bytes=1_000_000))
    assert found.metadata["skipped_parts"] == 1


@pytest.mark.parametrize("size", [0, 1, 64, 4095, 4096, 8_000_000])
def test_compound_files_hold_what_they_are_made_of(size: int) -> None:
    rng = random.Random(size)
    inner = {f"n{number}": rng.randbytes(number) for number in range(70)}
    tree: Tree = {"Long": rng.randbytes(size), "Folder": {"Inner": inner, "Empty": b""}, "\x01Ole": b"x"}
    data = compound_file(tree)
    with olefile.OleFileIO(io.BytesIO(data), raise_defects=olefile.DEFECT_POTENTIAL) as compound:
        assert folder_of(compound, [], len(data)) == tree
        assert folder_of(compound, ["Folder", "Inner"], len(data)) == inner
        assert folder_of(compound, ["Folder"], len(data), [["Folder", "Empty"]]) == {"Empty": b""}
        with pytest.raises(ValueError, match="longer than their file"):
            folder_of(compound, ["Folder"], 100)


def test_damaged_hosts_are_read_or_refused() -> None:
    rng = random.Random(3)
    files = list(hosts(SHEET, TEXT).items())
    with BytesReader(process_limits=PROCESS_LIMITS) as reader:
        for number in range(60):
            name, data = files[number % len(files)]
            changed = rng.choice(CHANGES)(data, files[(number + 1) % len(files)][1], rng)
            try:
                reader.read(changed, uri=name)
            except DocumentError as error:
                assert "ended twice" not in str(error)  # noqa: PT017
