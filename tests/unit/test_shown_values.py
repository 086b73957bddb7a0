"""Numbers, dates and times are shown as Excel shows them, in workbooks of each format whose cells hold numbers and the
codes of formats. OpenDocument files hold the texts that their cells show."""

from __future__ import annotations

import io
import struct

import openpyxl
import pytest
from lxml import etree
from other_office_samples import binary_cell, binary_workbook, excel_97, record, wide

from app.types.texts import Cell
from ingest.readers.cell_values import formatted_value
from ingest.readers.charts import chart_blocks, point_blocks
from ingest.readers.document import read_document
from ingest.readers.grids import render_rows


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        ("0.000663194", "mm:ss.0", "00:57.3"),
        ("0.000663194", "ss.00", "57.30"),
        ("0.000663194", "mm:ss", "00:57"),
        ("0.00066955", "mm:ss", "00:58"),
        ("0.999999", "h:mm:ss.0", "23:59:59.9"),
        ("0.9999999", "h:mm:ss.0", "0:00:00.0"),
        ("0.000663194", "[m]:ss.000", "0:57.300"),
        ("1.000663194", "[h]:mm:ss.0", "24:00:57.3"),
        ("0.000663194", "[s].0", "57.3"),
        ("-0.000663194", "[s].0", "-57.3"),
        ("-0.0000001", "[s].0", "0.0"),
        ("39219.000663194", "yyyy-mm-dd hh:mm:ss.0", "2007-05-17 00:00:57.3"),
        ("0.000663194", f"ss.{'0' * 9}", "57.299962"),
    ],
)
def test_fractions_of_seconds_are_rounded_to_the_places_of_the_format(value: str, code: str, shown: str) -> None:
    assert formatted_value(value, code) == shown


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        # Values that are no dates, and words in quotes that are also the name of a format.
        (1e10, "d-mmm-yy", "10000000000"),
        (-1e10, "yyyy-mm-dd", "-10000000000"),
        (39219.0, 'd mmm yyyy" General"', "17 May 2007 General (2007-05-17)"),
        (5.0, '0" General"', "5 General"),
        # Sections and conditions.
        (0.25, "[<1]h:mm;yyyy-mm-dd", "6:00"),
        (39219.0, "[<1]h:mm;yyyy-mm-dd", "2007-05-17"),
        (5551234.0, "[<=9999999]000-0000;(000) 000-0000", "555-1234"),
        (2065551234.0, "[<=9999999]000-0000;(000) 000-0000", "(206) 555-1234"),
        (1.0, '[=1]0" day";0" days"', "1 day"),
        (3.0, '[=1]0" day";0" days"', "3 days"),
        (-3.0, '[=1]0" day";0" days"', "-3 days"),
        (150.0, '[Red][>100]0" high";[Blue][<10]0" low";0" fair"', "150 high"),
        (5.0, '[Red][>100]0" high";[Blue][<10]0" low";0" fair"', "5 low"),
        (-5.0, '[Red][>100]0" high";[Blue][<10]0" low";0" fair"', "-5 low"),
        (50.0, '[Red][>100]0" high";[Blue][<10]0" low";0" fair"', "50 fair"),
        (-5.0, '[<0]0" below";0" above"', "5 below"),
        (-5.0, '[>=0]0" above";0" below"', "5 below"),
        (5.0, "[<1]0.00", "5"),
        (5.0, '"[<1]"0', "[<1]5"),
        (-0.25, "h:mm;\\-h:mm", "-6:00"),
        (-5.0, '0.0;(0.0);"none"', "(5.0)"),
        (0.0, '0.0;(0.0);"none"', "none"),
        # Sections for texts, colours, languages, currencies.
        (39219.0, "yyyy\\-mm\\-dd;@", "2007-05-17"),
        (-5.0, "0.0;@", "-5.0"),
        (-2.5, "[Red]0.00", "-2.50"),
        (0.75, "[Color 5][$-409]h:mm AM/PM;@", "6:00 PM"),
        (39219.0, "[$-407]d. mmmm yyyy;@", "17. Mai 2007 (2007-05-17)"),
        (39219.0, "[$-F800]dddd, mmmm dd, yyyy", "Thursday, May 17, 2007 (2007-05-17)"),
        (1234.5, "#,##0.00 [$€-407]", "1,234.50 €"),
        (-1234.5, "[$£-809]#,##0.00;[Red]-[$£-809]#,##0.00", "-£1,234.50"),
        # Halves of the day.
        (0.75, "h:mm am/pm", "6:00 PM"),
        (0.25, "h:mm a/p", "6:00 a"),
        (0.75, '[$-804]上午/下午h"时"mm"分"', "下午6时00分"),
        (0.25, "[$-411]午前/午後 h:mm", "午前 6:00"),
        (0.75, "[$-412]오전/오후 h:mm", "오후 6:00"),
        # Times below zero.
        (-0.25, "h:mm", "-6:00"),
        (-1.5, "[h]:mm", "-36:00"),
        (-0.0000001, "h:mm:ss", "0:00:00"),
        (1.0, "yyyy-mm-dd", "1900-01-01"),
        (0.000663194, "mm:ss.0", "00:57.3"),
    ],
)
def test_values_in_workbooks(value: float, code: str, shown: str) -> None:
    assert _in_workbooks(value, code) == dict.fromkeys(("xlsx", "xls", "xlsb"), shown)


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (5.0, "yyyy-mm-dd", "1904-01-06"),
        (37757.0, "d-mmm-yy", "17-May-07 (2007-05-17)"),
        (0.25, "h:mm", "6:00"),
        (-0.25, "h:mm", "-6:00"),
        (2957003.0, "yyyy-mm-dd", "9999-12-31"),
        (2957004.0, "yyyy-mm-dd", "2957004"),
    ],
)
def test_values_in_workbooks_that_count_from_1904(value: float, code: str, shown: str) -> None:
    assert _in_workbooks(value, code, is_1904=True) == dict.fromkeys(("xlsx", "xls", "xlsb"), shown)


def _in_workbooks(value: float, code: str, *, is_1904: bool = False) -> dict[str, str]:
    """What the cell below the name "Value" shows, by the format of the workbook."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904 if is_1904 else openpyxl.utils.datetime.CALENDAR_WINDOWS_1900
    sheet.append(["What", "Value"])
    sheet.append(["x", value])
    sheet["B2"].number_format = code
    saved = io.BytesIO()
    book.save(saved)
    mode = record(0x0022, struct.pack("<H", is_1904))
    names = [binary_cell(6, column, wide(name)) for column, name in enumerate(("What", "Value"))]
    cells = [binary_cell(6, 0, wide("x")), binary_cell(5, 1, struct.pack("<d", value), style=1)]
    files = {
        "xlsx": saved.getvalue(),
        "xls": excel_97([["What", "Value"], ["x", value]], ["General", code], head_more=mode),
        "xlsb": binary_workbook({0: names, 1: cells}, formats=[code], is_1904=is_1904),
    }
    texts = {kind: read_document(data, uri=f"a.{kind}").text for kind, data in files.items()}
    return {kind: text.rpartition("What: x; Value: ")[2] for kind, text in texts.items()}


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("0" + "x" * 60_000, "5" + "x" * 254),
        ('0"' + "x" * 252 + '"', "5" + "x" * 252),
        ('0"' + "x" * 253 + '"', "5"),  # its quote is cut off
    ],
)
def test_formats_are_read_up_to_their_limit(code: str, shown: str) -> None:
    assert formatted_value("5", code) == shown
    assert _in_workbooks(5.0, code[:256]) == dict.fromkeys(("xlsx", "xls", "xlsb"), shown)


class _Counted(dict[int, str]):
    """Points of a series that count how often they are asked for."""

    asked = 0

    def get(self, key: int, default: str = "") -> str:  # type: ignore[override]
        type(self).asked += 1
        return super().get(key, default)

    def __getitem__(self, key: int) -> str:
        type(self).asked += 1
        return super().__getitem__(key)


def test_work_for_a_chart_grows_with_its_points() -> None:
    """Not with the product of series and points: most series have no value at most points."""
    count = 300
    columns = [(f"S{number}", _Counted({number: str(number)})) for number in range(count)]
    blocks = list(point_blocks({0: "East"}, columns))
    assert [block.text for block in blocks[:2]] == ["Category: East; S0: 0", "S1: 1"]
    assert blocks[1].cells == (Cell(0, 4, 5, 2),)
    assert len(blocks) == count
    assert _Counted.asked <= count


@pytest.mark.parametrize(("mark", "shown"), [('<c:date1904 val="1"/>', "1904-01-06"), ("", "1900-01-05")])
def test_dates_of_charts(mark: str, shown: str) -> None:
    points = '<c:formatCode>yyyy-mm-dd</c:formatCode><c:pt idx="0"><c:v>5</c:v></c:pt>'
    values = f"<c:ser><c:val><c:numRef><c:numCache>{points}</c:numCache></c:numRef></c:val></c:ser>"
    chart = etree.fromstring(f'<c:chartSpace xmlns:c="c">{mark}<c:chart>{values}</c:chart></c:chartSpace>')
    assert [block.text for block in chart_blocks(chart)] == [f"Series 1: {shown}"]


@pytest.mark.parametrize("value", ["150000000000000000000", "0.000012", "-150", "198356388"])
def test_powers_of_ten_are_values_and_no_names(value: str) -> None:
    shown = formatted_value(value, "0.00E+00")
    rows = [["Tea", shown], ["Rice", shown], ["Corn", shown]]
    assert [block.text for block in render_rows(rows)] == [f"{name}; {shown}" for name in ("Tea", "Rice", "Corn")]
