"""OpenDocument files, binary workbooks and a Word 97 document, which no library of the tests writes."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence

from outlook_files import compound_file

from ingest.readers.compound_files import compound_file as large_compound_file

_KINDS = "office text table draw chart style meta svg xlink presentation dc manifest loext form"
NAMES = " ".join(f'xmlns:{kind}="urn:{kind}"' for kind in _KINDS.split())
_SECTOR = 512


def content(kind: str, inner: str) -> str:
    return f"<office:document-content {NAMES}><office:body><office:{kind}>{inner}</office:{kind}></office:body></office:document-content>"


def open_document(kind: str, inner: str, **parts: str) -> bytes:
    files = {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content(kind, inner)}
    files |= {f"{name}.xml": xml for name, xml in parts.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, xml in files.items():
            archive.writestr(zipfile.ZipInfo(name), xml)  # of 1980: the same bytes whenever it is made
    return buffer.getvalue()


def flat_document(kind: str, inner: str) -> bytes:
    """An OpenDocument file that is one XML file."""
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    body = f"<office:body><office:{kind}>{inner}</office:{kind}></office:body>"
    return f'<?xml version="1.0"?><office:document {NAMES} office:mimetype="{media_type}">{body}</office:document>'.encode()


SAVED_PAGE = b"""From: <Saved by a browser>
Subject: Of cities
MIME-Version: 1.0
Content-Type: multipart/related; type="text/html"; boundary="--b"

----b
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable
Content-Location: https://example.org/cities

<html><head><title>Of cities</title></head><body><p>K=C3=B6ln lies on the Rhine.</p><img src=3D"a.png"></body></html>
----b
Content-Type: image/png
Content-Transfer-Encoding: base64
Content-Location: https://example.org/a.png

iVBORw0KGgo=
----b--
"""


def p(text: str) -> str:
    return f"<text:p>{text}</text:p>"


def row(*cells: str) -> str:
    return f"<table:table-row>{''.join(cells)}</table:table-row>"


def cell(text: str, attributes: str = "", more: str = "") -> str:
    return f"<table:table-cell {attributes}>{p(text) if text else ''}{more}</table:table-cell>"


def record(kind: int, data: bytes) -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def drawn_text(identity: int, *chunks: str, kind: int = 6) -> bytes:
    """An object of a sheet with a text; each chunk stands in a record of its own, in as few bytes as it can."""
    packed = [
        (b"\0" + chunk.encode("latin-1")) if chunk.isascii() else b"\1" + chunk.encode("utf-16-le") for chunk in chunks
    ]
    count = sum(map(len, chunks))
    return (
        record(0x005D, struct.pack("<HHHH", 0x15, 0x12, kind, identity) + bytes(14))
        + record(0x01B6, bytes(10) + struct.pack("<HH", count, 16) + bytes(4))
        + b"".join(record(0x003C, each) for each in packed)
        + record(0x003C, bytes(16))
    )


def old_text(text: str, *, length: str = "H") -> bytes:
    return struct.pack(f"<{length}B", len(text), 1) + text.encode("utf-16-le")


def old_chart(
    title: str, axis: str, names: Sequence[str], categories: Sequence[str], values: Sequence[Sequence[float]]
) -> bytes:
    """The part of a chart within that of its sheet."""
    found = record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0020, 0, 0, 0, 0x0600))
    for name in names:
        found += record(0x1003, bytes(12)) + record(0x100D, b"\0\0" + old_text(name, length="B"))
    for text, link in ((axis, 2), (title, 1)):
        found += record(0x1025, bytes(32)) + record(0x100D, b"\0\0" + old_text(text, length="B"))
        found += record(0x1027, struct.pack("<HHH", link, 0, 0))
    found += record(0x1065, struct.pack("<H", 1))
    for column, points in enumerate(values):
        for row, value in enumerate(points):
            found += record(0x0203, struct.pack("<HHHd", row, column, 0, value))
    found += record(0x1065, struct.pack("<H", 2))
    for row, category in enumerate(categories):
        found += record(0x0204, struct.pack("<HHH", row, 0, 0) + old_text(category))
    return found + record(0x000A, b"")


def excel_97(
    rows: Sequence[Sequence[str | float]], formats: Sequence[str], more: bytes = b"", head_more: bytes = b""
) -> bytes:
    """One sheet S of BIFF8, with a format for each column; `more` records end the sheet."""
    begin = struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0x0600)
    head = record(0x0809, begin) + head_more + record(0x0042, struct.pack("<H", 1200))
    for number, code in enumerate(formats):
        head += record(0x041E, struct.pack("<H", 164 + number) + old_text(code))
    for number in range(len(formats)):
        head += record(0x00E0, struct.pack("<HHH", 0, 164 + number, 0) + bytes(14))
    name = struct.pack("<HBB", 0, 1, 0) + b"S"
    size = len(head) + len(record(0x0085, bytes(4) + name)) + 4
    head += record(0x0085, struct.pack("<I", size) + name) + record(0x000A, b"")
    sheet = record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0x0600))
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            at = struct.pack("<HHH", number, column, min(column, len(formats) - 1))
            if isinstance(value, str):
                sheet += record(0x0204, at + struct.pack("<HB", len(value), 0) + value.encode("latin-1"))
            else:
                sheet += record(0x0203, at + struct.pack("<d", value))
    return compound_file({"Workbook": head + sheet + more + record(0x000A, b"")})


def binary_record(kind: int, data: bytes = b"") -> bytes:
    """A record of a binary workbook: kind and length in groups of seven bits."""
    head = bytes([kind]) if kind < 128 else bytes([kind & 0x7F | 0x80, kind >> 7])
    size = len(data)
    while size > 127:
        head, size = head + bytes([size & 0x7F | 0x80]), size >> 7
    return head + bytes([size]) + data


def wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def binary_cell(kind: int, column: int, value: bytes, style: int = 0) -> bytes:
    return binary_record(kind, struct.pack("<II", column, style) + value)


def binary_workbook(
    rows: Mapping[int, Sequence[bytes]],
    *,
    texts: Sequence[str] = (),
    formats: Sequence[str] = (),
    more: bytes = b"",
    comments: Sequence[tuple[str, int, int, str]] = (),
    is_early: bool = False,
    is_1904: bool = False,
    parts: Mapping[str, str | bytes] | None = None,
    relations: str = "",
) -> bytes:
    """One sheet S of an xlsb: cells by row, comments as author, row, column and text, and `more` records after the rows.

    `is_early`: as Excel 2007 wrote it before its release.
    """
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
    link = f'<Relationship Id="{{}}" Type="{kind}/{{}}" Target="{{}}"/>'
    sheet = binary_record(129) + binary_record(145)
    for number, cells in rows.items():
        sheet += binary_record(0, struct.pack("<I", number) + bytes(13)) + b"".join(cells)
    sheet += binary_record(146) + more
    bundle = bytes(8) + bytes(4 if is_early else 0) + wide("r1") + wide("S")
    styles = b"".join(binary_record(44, struct.pack("<H", 164 + at) + wide(code)) for at, code in enumerate(formats))
    styles += binary_record(617) + binary_record(47, bytes(16))
    styles += b"".join(binary_record(47, struct.pack("<HH", 0, 164 + at) + bytes(12)) for at in range(len(formats)))
    notes = b"".join(binary_record(632, wide(author)) for author, *_ in comments)
    for number, (_, row, column, text) in enumerate(comments):
        notes += binary_record(635, struct.pack("<IIIII", number, row, row, column, column) + bytes(16))
        notes += binary_record(637, b"\0" + wide(text))
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types>application/vnd.ms-excel.sheet.binary.macroEnabled.main</Types>",
        "_rels/.rels": links.format(link.format("r1", "officeDocument", "xl/workbook.bin")),
        "xl/_rels/workbook.bin.rels": links.format(
            link.format("r1", "worksheet", "worksheets/sheet1.bin")
            + link.format("r2", "sharedStrings", "sharedStrings.bin")
            + link.format("r3", "styles", "styles.bin")
        ),
        "xl/workbook.bin": binary_record(153, bytes([is_1904]) + bytes(11)) + binary_record(156, bundle),
        "xl/sharedStrings.bin": b"".join(binary_record(19, b"\0" + wide(text)) for text in texts),
        "xl/styles.bin": styles,
        "xl/worksheets/sheet1.bin": sheet,
        "xl/worksheets/_rels/sheet1.bin.rels": links.format(
            link.format("c", "comments", "../comments1.bin") + relations
        ),
        "xl/comments1.bin": notes,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in (files | dict(parts or {})).items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def excel_4(rows: Sequence[Sequence[str | float]]) -> bytes:
    """One sheet of BIFF4, which is no compound file."""
    found = record(0x0409, struct.pack("<HHH", 0, 0x10, 0)) + record(0x0042, struct.pack("<H", 1252))
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            at = struct.pack("<HHH", number, column, 0)
            if isinstance(value, str):
                found += record(0x0204, at + struct.pack("<H", len(value)) + value.encode("cp1252"))
            else:
                found += record(0x0203, at + struct.pack("<d", value))
    return found + record(0x000A, b"")


def old_word(text: str, properties: Sequence[bytes] = (), tables: Mapping[int, bytes] | None = None) -> bytes:
    """A Word 97 document of one piece of text, in the smallest compound file.

    `properties`: of each paragraph, its style and changes to it. `tables`: further tables, by where the head tells
    their places.
    """
    encoded = text.encode("utf-16-le")
    fib = bytearray(2 * _SECTOR)
    struct.pack_into("<HHHHHH", fib, 0, 0xA5EC, 0xC1, 0, 0x409, 0, 0x200)  # its tables are in the stream 1Table
    struct.pack_into("<HH", fib, 32, 14, 0)
    struct.pack_into("<H", fib, 62, 22)
    struct.pack_into("<I", fib, 0x4C, len(text))
    struct.pack_into("<H", fib, 0x98, 93)
    pieces = struct.pack("<BIII", 2, 16, 0, len(text)) + struct.pack("<HIH", 0, len(fib), 0)
    main, table = b"", b""
    parts = {0x1A2: pieces, **(tables or {})}
    if properties:
        encoded = encoded.ljust(-(-len(encoded) // _SECTOR) * _SECTOR, b"\0")
        starts = [len(fib), *(len(fib) + 2 * at + 2 for at, sign in enumerate(text) if sign in "\r\a")]
        parts[0x102] = struct.pack("<III", starts[0], starts[-1], (len(fib) + len(encoded)) // _SECTOR)
        main = _paragraph_page(starts, properties)
    for at, part in parts.items():
        struct.pack_into("<II", fib, at, len(table), 2 if at == 0x2E2 else len(part))  # of lists, without their levels
        table += part
    streams = {"WordDocument": bytes(fib) + encoded + main, "1Table": table}
    sectors, places = b"", {}
    chain = [0xFFFFFFFD, 0xFFFFFFFE]  # the sector of this list, that of the directory
    for name, data in streams.items():
        data = data.ljust(4096, b"\0")  # a smaller one would be kept elsewhere
        data = data.ljust(-(-len(data) // _SECTOR) * _SECTOR, b"\0")
        places[name] = (len(chain), len(data))
        first, count = len(chain), len(data) // _SECTOR
        chain += [*range(first + 1, first + count), 0xFFFFFFFE]
        sectors += data

    def entry(name: str, kind: int, left: int, right: int, child: int, start: int, size: int) -> bytes:
        encoded_name = name.encode("utf-16-le")
        head = encoded_name.ljust(64, b"\0") + struct.pack(
            "<HBBIII", len(encoded_name) + 2, kind, 1, left, right, child
        )
        return head + bytes(36) + struct.pack("<IQ", start, size)

    none = 0xFFFFFFFF
    directory = (
        entry("Root Entry", 5, none, none, 1, 0xFFFFFFFE, 0)
        + entry("1Table", 2, none, 2, none, *places["1Table"])
        + entry("WordDocument", 2, none, none, none, *places["WordDocument"])
        + bytes(128)
    )
    header = (
        bytes.fromhex("d0cf11e0a1b11ae1")
        + bytes(16)
        + struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0, 0)
    )
    header += b"\xff" * (_SECTOR - len(header))
    table = b"".join(struct.pack("<I", each) for each in chain).ljust(_SECTOR, b"\xff")
    return header + table + directory + sectors


def _paragraph_page(starts: Sequence[int], properties: Sequence[bytes]) -> bytes:
    page = bytearray(_SECTOR)
    count = len(properties)
    struct.pack_into(f"<{count + 1}I", page, 0, *starts)
    end = _SECTOR - 2
    for number, each in enumerate(properties):
        head = bytes([len(each) // 2 + 1]) if len(each) % 2 else bytes([0, len(each) // 2])
        end = (end - len(head + each)) // 2 * 2
        page[end : end + len(head + each)] = head + each
        page[4 * (count + 1) + 13 * number] = end // 2
    assert end >= 4 * (count + 1) + 13 * count, "too many properties for a page"
    page[-1] = count
    return bytes(page)


def _powerpoint_record(kind: int, data: bytes, *, instance: int = 0, is_container: bool = False) -> bytes:
    return struct.pack("<HHI", (0xF if is_container else 0) | instance << 4, kind, len(data)) + data


def powerpoint_97(
    *slides: tuple[str, str],
    objects: Mapping[int, bytes] | None = None,
    notes: Mapping[int, str] | None = None,
    comments: Mapping[int, tuple[str, str]] | None = None,
    footers: Mapping[int, str] | None = None,
) -> bytes:
    """Slides of a title and a body, whose texts are in the list of the document. By the slides that show them, from 0,
    `objects`: embedded files; `notes`; `comments`: author and text; `footers`."""
    objects, notes, comments, footers = objects or {}, notes or {}, comments or {}, footers or {}
    numbers = {slide: number for number, slide in enumerate(objects)}
    listed = b""
    for number, texts in enumerate(slides):
        listed += _powerpoint_record(0x03F3, struct.pack("<IIIII", 2 + number, 0, 2, 256 + number, 0))
        for kind, text in enumerate(texts):
            listed += _powerpoint_record(0x0F9F, struct.pack("<I", kind))
            listed += _powerpoint_record(0x0FA0, text.encode("utf-16-le"))
    document = _powerpoint_record(0x03E9, struct.pack("<IIIIIIIIHHBBBB", 5760, 4320, *[0] * 12))
    stored = b"".join(
        _powerpoint_record(
            0x0FCC,
            _powerpoint_record(0x0FC3, struct.pack("<6I", 1, 0, 7 + number, 0, 2 + len(slides) + number, 0)),
            is_container=True,
        )
        for number in numbers.values()
    )
    if stored:
        document += _powerpoint_record(0x0409, _powerpoint_record(0x040A, bytes(4)) + stored, is_container=True)
    document += _powerpoint_record(0x0FF0, listed, is_container=True)
    if notes:
        first = 2 + len(slides) + len(objects)
        atoms = [struct.pack("<IIIII", first + at, 0, 0, 256 + at, 0) for at in range(len(notes))]
        listed = b"".join(_powerpoint_record(0x03F3, atom) for atom in atoms)
        document += _powerpoint_record(0x0FF0, listed, instance=2, is_container=True)
    document += _powerpoint_record(0x03EA, b"")
    parts = [_powerpoint_record(0x03E8, document, is_container=True)]
    for number in range(len(slides)):
        slide = _powerpoint_record(0x03EF, bytes(24))
        if number in numbers:
            slide += _powerpoint_record(0x0BC1, struct.pack("<I", 7 + numbers[number]))
        for text, flags in ((footers[number], 1 << 5), ("Unseen", 0)) if number in footers else ():
            margins = _powerpoint_record(0x0FDA, struct.pack("<HH", 0, flags)) + _ppt_text(text, 2)
            slide += _powerpoint_record(0x0FD9, margins, is_container=True)
        if number in comments:
            comment = b"".join(_ppt_text(text, at) for at, text in enumerate(comments[number]))
            blob = _powerpoint_record(0x138B, _powerpoint_record(0x2EE0, comment, is_container=True))
            slide += _powerpoint_record(0x1388, _powerpoint_record(0x138A, blob, is_container=True), is_container=True)
        parts.append(_powerpoint_record(0x03EE, slide, is_container=True))
    for number, data in enumerate(objects.values()):
        packed = struct.pack("<I", len(data)) + zlib.compress(data)
        parts.append(_powerpoint_record(0x1011, data if number % 2 else packed, instance=1 - number % 2))
    for number, text in notes.items():
        page = _powerpoint_record(0x03F1, struct.pack("<II", 256 + number, 0))
        page += _powerpoint_record(0x0FA0, text.encode("utf-16-le")) + _powerpoint_record(0x0FA8, b"*")
        parts.append(_powerpoint_record(0x03F0, page, is_container=True))
    places = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
    directory = struct.pack("<I", 1 | len(parts) << 20) + struct.pack(f"<{len(parts)}I", *places[:-1])
    stream = b"".join(parts) + _powerpoint_record(0x1772, directory)
    edit = struct.pack("<IHBBIIIIHH", 256, 0, 0, 3, 0, places[-1], 1, 1 + len(parts), 1, 0)
    user = struct.pack("<IIIHHBBH", 20, 0xE391C05F, len(stream), 0, 0x03F4, 3, 0, 0) + struct.pack("<I", 8)
    return large_compound_file(
        {
            "PowerPoint Document": stream + _powerpoint_record(0x0FF5, edit),
            "Current User": _powerpoint_record(0x0FF6, user),
        }
    )


RICH_TEXT = (
    rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}{\f1\fcharset128 Mincho;}}{\info{\author Ada}}{\header Head\par}\f0 Paris and K\'f6ln"
    rb"{\footnote On the {\f1\'93\'fa} Rhine.}\par Of cities \u8364?{\shp{\*\shpinst{\sp{\sn wzDescription}{\sv A map}}}}\par"
    rb"\trowd\cellx900\cellx1800\intbl City\cell n\cell\row\intbl Paris\cell 1\cell\row\pard End\par}"
)


def graph(title: str, rows: Sequence[Sequence[str | float]], more: bytes = b"") -> bytes:
    """A chart of Microsoft Graph, with a row of its datasheet for each series; `more` records end it."""
    begin = record(0x0809, struct.pack("<HHHHII", 0x0680, 5, 0, 0, 0, 0))
    head = begin + record(0x0085, struct.pack("<IH", len(begin) + 18, 0) + _short("x")) + record(0x000A, b"")
    cells = b"".join(
        datasheet_cell(number, column, value)
        for number, row in enumerate(rows)
        for column, value in enumerate(row)
        if value
    )
    titles = record(0x1025, bytes(32)) + record(0x100D, bytes(2) + _short(title)) + record(0x1027, struct.pack("<H", 1))
    part = record(0x0809, struct.pack("<HHHHII", 0x0680, 0x8000, 0, 0, 0, 0))
    return compound_file({"Workbook": head + part + cells + titles + more + record(0x000A, b"")})


def datasheet_cell(row: int, column: int, value: str | float) -> bytes:
    at = struct.pack("<HHxxx", row, column)
    return record(4, at + _short(value)) if isinstance(value, str) else record(3, at + struct.pack("<d", value))


def _ppt_text(text: str, instance: int) -> bytes:
    return _powerpoint_record(0x0FBA, text.encode("utf-16-le"), instance=instance)


def _short(text: str) -> bytes:
    return bytes([len(text), 1]) + text.encode("utf-16-le")


def powerpoint_95(texts: str) -> bytes:
    streams = {"PowerPoint Document": b"", "Current User": b"", "Text_Content": texts.encode("cp1252")}
    return compound_file(streams)


def other_office_samples() -> dict[str, bytes]:
    """One of each format, by its name."""
    table = f"<table:table table:name='T'>{row(cell('City'), cell('n'))}{row(cell('Paris'), cell('1'))}</table:table>"
    return {
        "a.odt": open_document("text", p("Of cities") + table),
        "a.ods": open_document("spreadsheet", table),
        "a.odp": open_document("presentation", f"<draw:page>{p('Paris')}</draw:page><draw:page>{p('Two')}</draw:page>"),
        "a.rtf": RICH_TEXT,
        "a.ppt": powerpoint_97(
            ("Of cities", "Paris\rK\xf6ln"),
            ("Two", "More"),
            notes={0: "Slowly."},
            comments={1: ("Ada", "Sure?")},
            footers={0: "ACME"},
        ),
        "a.fodt": flat_document("text", p("Of cities") + table),
        "a.mhtml": SAVED_PAGE,
        "a.doc": old_word("Of cities\rParis lies on the Seine.\r"),
        "a.xls": excel_97(
            [["City", "n"], ["Paris", 1.5]],
            ["General", '0.0" m"'],
            drawn_text(1, "On the Seine.", kind=0x19)
            + record(0x001C, struct.pack("<HHHH", 1, 0, 0, 1) + old_text("Ada"))
            + old_chart("Cities", "m", ["n"], ["Paris"], [[1.5]]),
        ),
        "a.xlsb": binary_workbook(
            {0: [binary_cell(7, 0, bytes(4)), binary_cell(6, 1, wide("n"))], 1: [binary_cell(6, 0, wide("Paris"))]},
            texts=["City"],
            formats=['0.0" m"'],
            comments=[("Ada", 1, 0, "On the Seine.")],
        ),
        "b.xls": excel_4([["City", "n"], ["Paris", 1.5]]),
        "c.xls": graph("Cities", [["", "n"], ["Paris", 1.5]]),
        "b.ppt": powerpoint_95("Of cities\r\rParis\rRome\r\r"),
    }
