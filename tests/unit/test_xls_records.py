"""Numbers, dates, times and errors of workbooks from before 2007, and of binary ones, are shown as in today's."""

from __future__ import annotations

import io
import struct
from datetime import datetime
from itertools import chain

import olefile
import pytest
from other_office_samples import binary_cell, binary_workbook, excel_97, record, wide
from outlook_files import Tree, compound_file

from ingest.readers.document import read_document
from ingest.readers.xls_cells import XlsCells
from ingest.readers.xls_records import XlsRecords


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (1146599.0, "#,##0", "1,146,599"),
        (0.25, "0.0%", "25.0%"),
        (198356388.0, "0.00E+00", "1.98E+08 (198356388)"),
        (39219.18125, "d-mmm-yy", "17-May-07 (2007-05-17)"),
        (39219.18125, "d/m/yyyy h:mm", "2007-05-17 4:21"),
        (0.75, "h:mm AM/PM", "6:00 PM"),
        (1.25, "[h]:mm", "30:00"),
        (2.5, "General", "2.5"),
    ],
)
def test_values_in_their_formats(value: float, code: str, shown: str) -> None:
    old = excel_97([["What", "Value"], ["x", value]], ["General", code])
    names = [binary_cell(6, column, wide(name)) for column, name in enumerate(("What", "Value"))]
    cells = [binary_cell(6, 0, wide("x")), binary_cell(5, 1, struct.pack("<d", value), style=1)]
    binary = binary_workbook({0: names, 1: cells}, formats=[code])
    for data, name in ((old, "a.xls"), (binary, "a.xlsb")):
        assert read_document(data, uri=name).text.split("\n\n")[-1] == f"What: x; Value: {shown}"


@pytest.mark.parametrize(
    ("value", "is_1904", "code", "shown"),
    [
        (1.0, False, "yyyy-mm-dd", "1900-01-01"),
        (5.0, False, "yyyy-mm-dd", "1900-01-05"),
        (59.0, False, "yyyy-mm-dd", "1900-02-28"),
        (61.0, False, "yyyy-mm-dd", "1900-03-01"),
        (5.0, False, "d-mmm-yy", "5-Jan-00 (1900-01-05)"),
        (5.5, False, "[h]:mm", "132:00"),
        (5.0, True, "yyyy-mm-dd", "1904-01-06"),
        (-1.5, False, "[h]:mm", "-36:00"),
        (0.000663194, False, "mm:ss.0", "00:57.3"),
    ],
)
def test_days_and_times_of_1997(value: float, code: str, shown: str, *, is_1904: bool) -> None:
    mode = record(0x0022, struct.pack("<H", is_1904))
    text = read_document(
        excel_97([["What", "Value"], ["x", value]], ["General", code], head_more=mode), uri="a.xls"
    ).text
    assert text.split("\n\n")[-1] == f"What: x; Value: {shown}"


def test_numbers_of_few_bytes() -> None:
    rows: list[list[str | float]] = [["What", "Value"], ["x", 2.0], ["y"], ["z"]]
    cells = record(0x027E, struct.pack("<HHHi", 2, 1, 1, 725 << 2 | 3))
    cells += record(0x00BD, struct.pack("<HHHiH", 3, 1, 1, -5 << 2 | 2, 1))
    text = read_document(excel_97(rows, ["General", "0.00"], cells), uri="a.xls").text
    assert text.split("\n\n")[-3:] == ["What: x; Value: 2.00", "What: y; Value: 7.25", "What: z; Value: -5.00"]


def test_numbers_below_a_cell_of_several_lines_and_right_of_a_gap() -> None:
    rows: list[list[str | float]] = [["a\nb", "Price"], ["one\ntwo", 1599.9], ["three", 2.0]]
    text = read_document(excel_97(rows, ["General", '"$"#,##0.00']), uri="a.xls").text
    assert text.split("\n\n")[-2:] == ["a b: one two; Price: $1,599.90", "a b: three; Price: $2.00"]


def _workbook(*cells: bytes, version: int = 0x0600, name: str = "Workbook") -> bytes:
    """A sheet S with the formats `0%` and `0.0`, and these records."""
    is_old = version < 0x0600
    codes = [b"0%", b"0.0"]
    head = record(0x0809, struct.pack("<HH", version, 5) + bytes(12)) + record(0x0022, b"\1\0")
    for number, code in enumerate(codes):
        length = bytes([len(code)]) if is_old else struct.pack("<HB", len(code), 0)
        head += record(0x041E, struct.pack("<H", 164 + number) + length + code)
        head += record(0x00E0, struct.pack("<HH", 0, 164 + number) + bytes(16))
    sheet = b"\1S" if is_old else b"\1\0S"
    start = len(head) + 4 + 6 + len(sheet) + 4
    head += record(0x0085, struct.pack("<IBB", start, 0, 0) + sheet) + record(0x000A, b"")
    return compound_file({name: head + record(0x0809, bytes(16)) + b"".join(cells) + record(0x000A, b"")})


@pytest.mark.parametrize(("version", "name"), [(0x0500, "Book"), (0x0600, "Workbook")])
def test_records_of_numbers(version: int, name: str) -> None:
    chart = record(0x0809, bytes(16)) + record(0x0203, struct.pack("<HHHd", 9, 9, 1, 1.0)) + record(0x000A, b"")
    several = record(0x00BD, struct.pack("<HHHIHIH", 2, 3, 0, 0, 1, 0, 4))
    formula = record(0x0006, struct.pack("<HHH", 4, 0, 1) + bytes(16))
    workbook = XlsRecords(_workbook(several, chart, formula, version=version, name=name))
    assert _codes(workbook) == {2: {3: "0%", 4: "0.0"}, 4: {0: "0.0"}}
    assert workbook.formats.epoch == datetime(1904, 1, 1)


def _codes(workbook: XlsRecords) -> dict[int, dict[int, str]]:
    cells = XlsCells(workbook)
    for each in chain.from_iterable(map(workbook.records, workbook.sheets)):
        if each.depth == 1:
            cells.add(each)
    return {
        row: {column: workbook.formats.code(each.style) for column, each in numbers.items()}
        for row, numbers in cells.numbers.items()
    }


@pytest.mark.parametrize(
    ("code", "shown"),
    [(0, "#NULL!"), (7, "#DIV/0!"), (15, "#VALUE!"), (23, "#REF!"), (29, "#NAME?"), (36, "#NUM!"), (42, "#N/A")],
)
@pytest.mark.parametrize("is_formula", [False, True])
def test_errors_are_shown_in_their_cells(code: int, shown: str, *, is_formula: bool) -> None:
    place = struct.pack("<HHH", 2, 1, 0)
    result = struct.pack("<BBBBBBHHIH", 2, 0, code, 0, 0, 0, 0xFFFF, 0, 0, 0)
    error = record(0x0006, place + result) if is_formula else record(0x0205, place + bytes([code, 1]))
    truth = record(0x0205, struct.pack("<HHHBB", 3, 1, 0, 1, 0))
    rows: list[list[str | float]] = [["What", "Value"], ["x", 2.0], ["wrong"], ["true"]]
    text = read_document(excel_97(rows, ["General"], error + truth), uri="a.xls").text
    assert text.split("\n\n")[-3:] == ["What: x; Value: 2", f"What: wrong; Value: {shown}", "What: true; Value: TRUE"]


def test_embedded_objects_are_counted() -> None:
    with olefile.OleFileIO(io.BytesIO(excel_97([["City"], ["Rome"]], ["General"]))) as compound:
        stream = compound.openstream("Workbook").read()
    objects: Tree = {"MBD0001": {"Package": b"x", "MBD0002": {"Inner": b"y"}}, "MBD0003": {"CONTENTS": b"z"}}
    found = read_document(compound_file({"Workbook": stream, "Other": {"A": b"x"}, **objects}), uri="a.xls")
    assert found.text.split("\n\n")[-1] == "City: Rome"
    assert found.metadata == {"skipped_parts": 2, "skipped": "Embedded objects that are not read: 2."}


@pytest.mark.parametrize("data", [b"", b"\xd0\xcf\x11\xe0", b"no workbook", compound_file({"Other": b"x"})])
def test_other_files_have_no_formats(data: bytes) -> None:
    workbook = XlsRecords(data)
    assert (workbook.sheets, workbook.is_whole) == ([], False)


def test_cut_workbooks_end_where_their_records_end() -> None:
    whole = _workbook(record(0x0203, struct.pack("<HHHd", 0, 0, 1, 1.0)))
    assert _codes(XlsRecords(whole)) == {0: {0: "0.0"}}
    for end in range(512, len(whole), 61):
        _codes(XlsRecords(whole[:end]))


@pytest.mark.parametrize(
    ("page", "codec", "name", "unit"),
    [
        (1251, "cp1251", "Лист1", "руб."),
        (1250, "cp1250", "Účty", "Kč"),
        (1253, "cp1253", "Φύλλο1", "τεμ."),
        (932, "cp932", "Data", "円"),  # calamine reads no Japanese names
        (None, "cp1252", "Größe", "Stück–"),
    ],
)
def test_texts_of_1995_are_in_their_code_page(page: int | None, codec: str, name: str, unit: str) -> None:
    code, encoded = f'0 "{unit}"'.encode(codec), name.encode(codec)
    head = record(0x0809, struct.pack("<HHHH", 0x0500, 5, 0, 0))
    head += record(0x0042, struct.pack("<H", page)) if page else b""
    head += record(0x041E, struct.pack("<HB", 164, len(code)) + code)
    head += record(0x00E0, struct.pack("<HHH", 0, 164, 0) + bytes(10))
    start = len(head) + 4 + 7 + len(encoded) + 4
    head += record(0x0085, struct.pack("<IHB", start, 0, len(encoded)) + encoded) + record(0x000A, b"")
    sheet = record(0x0809, struct.pack("<HHHH", 0x0500, 0x10, 0, 0)) + record(
        0x0203, struct.pack("<HHHd", 0, 0, 0, 5.0)
    )
    data = compound_file({"Book": head + sheet + record(0x000A, b"")})
    assert read_document(data, uri="a.xls").text.split("\n\n")[-2:] == [f"Sheet {name}", f"5 {unit}"]


@pytest.mark.parametrize("code", ["[h]:mm", "[mm]:ss", "yyyy-mm-dd", "h:mm"])
@pytest.mark.parametrize("value", [1e10, -1e10, 1e300, -1e300, 1.7e308])
def test_numbers_that_are_no_dates_are_shown_and_refuse_no_workbook(code: str, value: float) -> None:
    rows: list[list[str | float]] = [["Name", "Time", "Other"], ["x", value, 1.5]]
    old = read_document(excel_97(rows, ["General", code, "0.00"]), uri="a.xls").text
    shown = f"{value:.15g}"
    assert old == f"Sheet S\n\nName: x; Time: {shown}; Other: 1.50"
    cells = [binary_cell(6, 0, wide("x")), binary_cell(5, 1, struct.pack("<d", value), 1)]
    new = read_document(binary_workbook({0: cells}, formats=[code]), uri="a.xlsb").text
    assert float(new.rpartition(" ")[2]) == value
