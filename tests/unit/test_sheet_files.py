"""Spreadsheets and CSV: which rows are titles and names, what merged cells cover, and what stands beside the cells."""

from __future__ import annotations

import datetime
import io
import itertools
import re
from collections.abc import Callable

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from office_files import CHART, NAMES, OFFICE, series
from openpyxl.comments import Comment
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table
from openpyxl.worksheet.worksheet import Worksheet
from sample_files import unzipped, workbook, zip_of

from app.errors import DocumentError
from ingest.readers.cell_dates import EPOCH
from ingest.readers.cell_values import CellFormats
from ingest.readers.charts import chart_blocks
from ingest.readers.csv_tables import split_rows
from ingest.readers.document import read_document
from ingest.readers.grids import SPANNED, render_rows
from ingest.readers.limits import ReadLimits


def book(fill: Callable[[Worksheet], None]) -> bytes:
    found = openpyxl.Workbook()
    fill(found.active)
    found.active.title = "S"
    buffer = io.BytesIO()
    found.save(buffer)
    return buffer.getvalue()


def lines(data: bytes | str, uri: str = "a.xlsx") -> list[str]:
    found = read_document(data.encode() if isinstance(data, str) else data, uri=uri).text.split("\n\n")
    return found[1:] if found[0] == "Sheet S" else found


def formatted(*values: tuple[object, str]) -> list[str]:
    """A row for each value, which has that number format."""

    def fill(sheet: Worksheet) -> None:
        sheet.append(["What", "Value"])
        for value, form in values:
            sheet.append(["x", value])
            sheet.cell(sheet.max_row, 2).number_format = form

    return lines(book(fill))


def rendered(rows: list[list[str]], *, has_gaps: bool = True) -> list[str]:
    return [block.text for block in render_rows(rows, has_gaps=has_gaps)]


class TestTitles:
    def test_of_tables_side_by_side_are_said_once(self):
        left = "What the mines of the country gave in each of the years after the war"
        right = "What was sold abroad and at home in each of the years after the war"
        rows = [
            [left, SPANNED, "", right, SPANNED],
            ["Land", "Units", "", "Land", "Units"],
            ["Italy", "5", "", "Spain", "7"],
        ]
        assert rendered(rows) == [left, right, "Land: Italy; Units: 5; Land: Spain; Units: 7"]

    def test_above_the_names(self):
        rows: list[list[object]] = [["Report 2024"], ["as of May"], [], ["City", "Units"], ["Rome", 5]]
        assert lines(workbook({"S": rows})) == ["Report 2024", "as of May", "City: Rome; Units: 5"]

    def test_over_several_columns_and_rows(self):
        def fill(sheet: Worksheet) -> None:
            for row in (["Report"], [], ["City", "Units", "Year"], ["Rome", 5, 2024]):
                sheet.append(row)
            sheet.merge_cells("A1:C2")

        assert lines(book(fill)) == ["Report", "City: Rome; Units: 5; Year: 2024"]

    def test_preamble_of_pairs(self):
        rows = [["Made by", "Ann"], ["Made on", "2024-05-01"], ["City", "Units", "Price"], ["Rome", "5", "2.5"]]
        assert rendered(rows) == ["Made by: Ann", "Made on: 2024-05-01", "City: Rome; Units: 5; Price: 2.5"]

    def test_notes_below(self):
        rows = [["City", "Units"], ["Rome", "5"], [], ["Source: the town"]]
        assert rendered(rows) == ["City: Rome; Units: 5", "Source: the town"]


class TestSecondTables:
    FIRST = (["Name", "Age"], ["Ann", "30"], ["Bob", "31"])

    @pytest.mark.parametrize("between", [[[]], [["Towns"]], [[], ["Towns"]], [[], [], []], []])
    def test_has_its_own_names(self, between):
        rows = [*self.FIRST, *between, ["City", "People"], ["Rome", "2.8"], ["Oslo", "0.7"]]
        found = rendered(rows)
        assert found[:2] == ["Name: Ann; Age: 30", "Name: Bob; Age: 31"]
        assert found[-2:] == ["City: Rome; People: 2.8", "City: Oslo; People: 0.7"]

    def test_of_texts_alone(self):
        rows = [["Name", "Role"], ["Ann", "Boss"], [], ["City", "Land"], ["Rome", "Italy"], ["Oslo", "Norway"]]
        assert rendered(rows)[1:] == ["City: Rome; Land: Italy", "City: Oslo; Land: Norway"]

    def test_rows_after_a_gap_go_on(self):
        rows = [*self.FIRST, [], ["Cem", "32"], [], ["Total", "93"]]
        assert rendered(rows)[2:] == ["Name: Cem; Age: 32", "Name: Total; Age: 93"]

    def test_a_form_below_a_table_has_names_of_its_own(self):
        rows = [*self.FIRST, [], ["Invoice:", "4711"], ["Customer:", "ACME"]]
        assert rendered(rows)[2:] == ["Invoice: 4711", "Customer: ACME"]

    def test_declared_by_the_workbook(self):
        def fill(sheet: Worksheet) -> None:
            for row in (["City", "Land"], ["Rome", "Italy"], ["Name", "Role"], ["Ann", "Boss"], ["Bob", "Cook"]):
                sheet.append(row)
            sheet.add_table(Table(displayName="People", ref="A3:B5"))

        assert lines(book(fill)) == ["City: Rome; Land: Italy", "Name: Ann; Role: Boss", "Name: Bob; Role: Cook"]

    def test_words_among_numbers_are_no_names(self):
        rows = [["City", "People"], ["Rome", "2.8"], ["Oslo", "0.7"], ["Troy", "unknown"], ["Paris", "2.1"]]
        assert rendered(rows)[2:] == ["City: Troy; People: unknown", "City: Paris; People: 2.1"]


class TestNames:
    @pytest.mark.parametrize(
        "top",
        [
            ["Region", "2023", SPANNED, "2024", SPANNED],
            ["", "2023", SPANNED, "2024", SPANNED],
            ["", "2023", "", "2024", ""],
            ["Region", "2023", "", "2024", ""],
        ],
    )
    def test_in_two_rows(self, top):
        below = ["Region" if top[0] and SPANNED in top else "" if top[0] else "Region", "Q1", "Q2", "Q1", "Q2"]
        assert rendered([top, below, ["East", "1", "2", "3", "4"]]) == [
            "Region: East; 2023 Q1: 1; 2023 Q2: 2; 2024 Q1: 3; 2024 Q2: 4"
        ]

    def test_in_two_rows_of_a_workbook(self):
        def fill(sheet: Worksheet) -> None:
            for row in (["Region", "Sales", None], [None, "May", "June"], ["East", 1, 2]):
                sheet.append(row)
            sheet.merge_cells("A1:A2")
            sheet.merge_cells("B1:C1")

        assert lines(book(fill)) == ["Region: East; Sales May: 1; Sales June: 2"]

    def test_years_and_dates(self):
        assert rendered([["Land", "2020", "2021"], ["Italy", "59", "60"]]) == ["Land: Italy; 2020: 59; 2021: 60"]
        rows = [["Item", "2024-01-01", "2024-02-01"], ["Sales", "5", "6"]]
        assert rendered(rows) == ["Item: Sales; 2024-01-01: 5; 2024-02-01: 6"]

    def test_there_are_none(self):
        assert rendered([["Rome", "2.8"], ["Oslo", "0.7"]]) == ["Rome; 2.8", "Oslo; 0.7"]

    def test_pairs_of_a_form(self):
        assert rendered([["Name:", "Ada"], ["Born:", "1815"], ["Died:", ""]]) == ["Name: Ada", "Born: 1815", "Died:"]


class TestMergedCells:
    def fill(self, sheet: Worksheet) -> None:
        rows = (["Region", "Land", "Units"], ["East", "A", 1], [None, "B", 2], [None, "C", 3], ["All", None, 6])
        for row in rows:
            sheet.append(row)
        sheet.merge_cells("A2:A4")
        sheet.merge_cells("A5:B5")

    def test_hold_for_all_their_rows_and_are_said_once_in_each(self):
        assert lines(book(self.fill)) == [
            "Region: East; Land: A; Units: 1",
            "Region: East; Land: B; Units: 2",
            "Region: East; Land: C; Units: 3",
            "Region: All; Units: 6",
        ]

    def test_over_rows_and_columns(self):
        def fill(sheet: Worksheet) -> None:
            for row in (["A", "B", "C"], ["x", None, 1], [None, None, 2]):
                sheet.append(row)
            sheet.merge_cells("A2:B3")

        assert lines(book(fill)) == ["A: x; C: 1", "A: x; C: 2", "No values: B"]

    def test_a_million_covered_cells_cost_nothing(self):
        def fill(sheet: Worksheet) -> None:
            sheet.append(["A", "B"])
            sheet.append(["x", 1])

        files = unzipped(book(fill))
        part = "xl/worksheets/sheet1.xml"
        merged = b'</sheetData><mergeCells><mergeCell ref="A2:A1048576"/></mergeCells>'
        files[part] = files[part].replace(b"</sheetData>", merged)
        assert lines(zip_of(files)) == ["A: x; B: 1"]


class TestBesideTheCells:
    def test_comments_by_their_cell(self):
        def fill(sheet: Worksheet) -> None:
            sheet.append(["City"])
            sheet.append(["Rome"])
            sheet["A2"].comment = Comment("Check the spelling.", "Ann")

        assert lines(book(fill)) == ["City: Rome", "Comment on A2 by Ann: Check the spelling."]

    def test_labels_of_forms(self):
        files = dict(unzipped(workbook({"S": [["City"], ["Rome"]]})))
        relation = f'<Relationship Id="v" Type="{OFFICE}/vmlDrawing" Target="../drawings/vmlDrawing1.vml"/>'
        rels = "http://schemas.openxmlformats.org/package/2006/relationships"
        files["xl/worksheets/_rels/sheet1.xml.rels"] = (
            f'<Relationships xmlns="{rels}">{relation}</Relationships>'.encode()
        )
        shape = '<v:shape><v:textbox><div>{}</div></v:textbox><x:ClientData ObjectType="{}"/></v:shape>'
        shapes = shape.format("I agree<br>to all", "Checkbox") + shape.format("in a comment", "Note")
        files["xl/drawings/vmlDrawing1.vml"] = f'<xml xmlns:v="urn:v" xmlns:x="urn:x">{shapes}</xml>'.encode()
        assert lines(zip_of(files)) == ["City: Rome", "I agree to all"]
        for damaged in (b"", b"no XML", b"<xml"):
            files["xl/drawings/vmlDrawing1.vml"] = damaged
            assert lines(zip_of(files)) == ["City: Rome"]

    def test_text_boxes_charts_and_pictures(self):
        files = dict(unzipped(workbook({"S": [["City"], ["Rome"]]})))
        rels = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
        link = '<Relationship Id="{}" Type="{}/{}" Target="../{}"/>'
        files["xl/worksheets/_rels/sheet1.xml.rels"] = rels.format(
            link.format("d", OFFICE, "drawing", "drawings/drawing1.xml")
        ).encode()
        files["xl/drawings/_rels/drawing1.xml.rels"] = rels.format(
            link.format("c", OFFICE, "chart", "charts/chart1.xml")
        ).encode()
        files["xl/charts/chart1.xml"] = CHART.format(series("Apples", {"East": "5"})).encode()
        files["xl/drawings/drawing1.xml"] = (
            f'<x:wsDr xmlns:x="urn:x" {NAMES}><x:sp><x:txBody><a:p><a:r><a:t>Beside</a:t></a:r></a:p></x:txBody></x:sp>'
            '<x:graphicFrame><a:graphic><c:chart r:id="c"/></a:graphic></x:graphicFrame>'
            '<x:pic><x:nvPicPr><x:cNvPr descr="The harbour"/></x:nvPicPr></x:pic></x:wsDr>'
        ).encode()
        assert lines(zip_of(files)) == [
            "City: Rome",
            "Beside",
            *("Chart: Harvest", "in tonnes", "Category: East; Apples: 5"),
            "Picture: The harbour",
        ]

    def test_charts_show_values_in_their_formats(self):
        dates = series("Apples", {"45413": "0.5"}).replace(
            "<c:cat><c:strRef><c:strCache>", "<c:cat><c:strRef><c:strCache><c:formatCode>d/m/yyyy</c:formatCode>"
        )
        dates = dates.replace("<c:numCache>", "<c:numCache><c:formatCode>0%</c:formatCode>")
        chart = etree.fromstring(CHART.format(dates).encode())
        assert [block.text for block in chart_blocks(chart)][-1] == "Category: 2024-05-01; Apples: 50%"

    def test_bubbles_have_their_sizes(self):
        cache = "<c:numCache><c:pt idx='0'><c:v>9</c:v></c:pt></c:numCache>"
        sizes = f"<c:bubbleSize><c:numRef>{cache}</c:numRef></c:bubbleSize>"
        one = series("Apples", {"East": "5"}).replace("</c:ser>", f"{sizes}</c:ser>")
        chart = etree.fromstring(CHART.format(one).encode())
        assert [block.text for block in chart_blocks(chart)][-1] == "Category: East; Apples: 5; Apples (size): 9"

    def test_messages_of_cells(self):
        def fill(sheet: Worksheet) -> None:
            sheet.append(["City"])
            sheet.append(["Rome"])
            for shows, cells in ((True, "A2:A9"), (False, "B1")):
                rule = DataValidation(type="whole", promptTitle="Pick", prompt="One of\nthem", showInputMessage=shows)
                rule.add(cells)
                sheet.add_data_validation(rule)

        assert lines(book(fill)) == ["City: Rome", "Message on A2:A9: Pick: One of them"]

    def test_headers_of_printed_pages(self):
        def fill(sheet: Worksheet) -> None:
            sheet.append(["City"])
            sheet.append(["Rome"])
            sheet.oddHeader.center.text = "Internal"

        assert lines(book(fill)) == ["City: Rome", "Internal"]


def test_columns_without_values_are_named_where_another_table_follows():
    rows = [["City", "Land", "Mayor"], ["Rome", "5", ""], ["Oslo", "6", ""], ["Mine", "Year", ""], ["East", "1901", ""]]
    assert "No values: Mayor" in rendered(rows)


class TestValues:
    def test_formulas_without_a_value_are_shown_as_formulas(self):
        data = workbook({"S": [["Item", "Sum"], ["all", "=SUM(A1:A9)"], ["none", '=IF(A1,"x","y")']]})
        assert lines(data) == ["Item: all; Sum: =SUM(A1:A9)", 'Item: none; Sum: =IF(A1,"x","y")']

    def test_kept_values_of_formulas_are_shown(self):
        files = unzipped(workbook({"S": [["Item", "Sum"], ["all", "=1+1"]]}))
        part = "xl/worksheets/sheet1.xml"
        for empty in (b"<v />", b"<v/>", b"<v></v>"):
            files[part] = files[part].replace(b"</f>" + empty, b"</f><v>2</v>")
        assert lines(zip_of(files)) == ["Item: all; Sum: 2"]

    def test_shared_formula_without_a_value_is_counted(self):
        files = unzipped(workbook({"S": [["Item", "Sum"], ["all", "=1+1"]]}))
        part = "xl/worksheets/sheet1.xml"
        files[part] = files[part].replace(b"<f>1+1</f>", b'<f t="shared" si="0"/>')
        found = read_document(zip_of(files), uri="a.xlsx")
        assert "Formulas without a value that are not read: 1." in str(found.metadata["skipped"])

    def test_formats(self):
        values = (
            (0.256, "0.0%"),
            (datetime.datetime(2024, 5, 1), "dd/mm/yyyy"),
            (datetime.datetime(2024, 5, 1, 13, 30), "dd/mm/yyyy hh:mm"),
            (datetime.time(9, 15), "h:mm"),
            (datetime.timedelta(hours=30), "[h]:mm"),
            (0.1 + 0.2, '0.00" days"'),
            (True, "General"),
        )
        assert formatted(*values) == [
            f"What: x; Value: {shown}"
            for shown in ("25.6%", "2024-05-01", "2024-05-01 13:30", "9:15", "30:00", "0.30 days", "TRUE")
        ]

    @pytest.mark.parametrize(
        ("value", "form", "shown"),
        [
            (1599.99, "#,##0.00", "1,599.99"),
            (-1599.99, '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', "($1,599.99)"),
            (1234567.5, "#,##0.00\\ [$€-407]", "1,234,567.50 €"),
            (100, '_-* #,##0.00\\ "€"_-', "100.00 €"),
            (0.025, "0%", "3%"),
            (5.25, '0.0" kg"', "5.3 kg"),
            (19.99, '0" dollars and ".00" cents"', "19 dollars and .99 cents"),
            (123456789, "000\\-00\\-0000", "123-45-6789"),
            (5, "00000", "00005"),
            (1, "\\1\\.0#", "1.01"),
            (5, "#,##0#", "05"),
            (0.5, "0.#0", "0.50"),
            (2.5, "0.##", "2.5"),
            (0, '0;-0;"none"', "none"),
            (-3, "0", "-3"),
            (-0.001, "0.00", "0.00"),
            ("x7", '"Nr. "@', "Nr. x7"),
            ("x7", '0;-0;0;@" pcs"', "x7 pcs"),
            ("x7", "0.00", "x7"),
            ("x7", "@", "x7"),
            ("x7", "@@", "x7"),
            (12, '"No. "0', "No. 12"),
            (33, 'General" pcs"', "33 pcs"),
            (42, "[Red]General", "42"),
            (0.1 + 0.2, "General", "0.3"),
            (198356388, "0.00E+00", "1.98E+08 (198356388)"),
            (-198356388, "0.00E+000_);[Red]\\(0.00E+000\\)", "-1.98E+008 (-198356388)"),
            (39219.18125, "d-mmm-yy", "17-May-07 (2007-05-17)"),
            (39219.18125, "[$-407]d. mmmm yyyy", "17. Mai 2007 (2007-05-17)"),
            (39219.18125, "[$-de-AT]ddd d.m.", "Do 17.5. (2007-05-17)"),
            (39219.18125, "[$-0]mmmm", "May (2007-05-17)"),
            (
                39219.18125,
                '"At" h:mm AM/PM "on" dddd mmmm d"," yyyy',
                "At 4:21 AM on Thursday May 17, 2007 (2007-05-17)",
            ),
            (39219.18125, "mmmmm", "M (2007-05-17)"),
            (39219.18125, 'yyyy"年"m"月"d"日"', "2007年5月17日 (2007-05-17)"),
            (39219.18125, 'd.m.yyyy h:mm\\ "Uhr"', "17.5.2007 4:21 Uhr (2007-05-17)"),
            (39219.18125, 'yyyy-mm-dd"T"hh:mm', "2007-05-17 04:21"),
            (39219.18125, '[$-404]e"年"m"月"d"日"', "2007-05-17"),
            (39219.18125, "m/d/yyyy h:mm AM/PM", "2007-05-17 4:21 AM"),
            (39219.18125, "m/d/yyyy", "2007-05-17"),
            (39219.75, "h AM/PM", "6 PM"),
            (0.5, "h:mm:ss.00", "12:00:00.00"),
            (0.0103, "mm:ss", "14:50"),
            (1.5, "[mm]:ss", "2160:00"),
            (2.5, "# ?/?", "2 1/2 (2.5)"),
            (-0.333, "# ??/??", "-1/3 (-0.333)"),
            (2.5, "?/?", "5/2 (2.5)"),
            (2.5, "# ?/4", "2 2/4 (2.5)"),
            (3, "# ?/?", "3"),
            (0.999, "# ?/?", "1"),
            (0.000012, "0.0E+00", "1.2E-05 (1.2e-05)"),
            (198356388, "##0.0E+0", "198.4E+6 (198356388)"),
            (999960, "##0.0E+0", "1.0E+6 (999960)"),
            (0, "0.00E+00", "0.00E+00 (0)"),
            (1500000, '0.0,,"M"', "1.5M (1500000)"),
            (-1234567, '#,##0,\\ "k"', "-1,235 k (-1234567)"),
            # Whole, since digits would be lost.
            (9, '[=1]"yes";"no"', "no"),
            (1.2345678, "0.000 000", "1.2345678"),
            (5, '0"x', "5"),
            (2958465.9999999, "d/m/yyyy h:mm:ss", "2958465.9999999"),
        ],
    )
    def test_numbers_have_their_units_and_currencies(self, value, form, shown):
        assert formatted((value, form)) == [f"What: x; Value: {shown}"]

    @given(
        st.floats(allow_nan=False).map(repr) | st.text(max_size=5),
        st.lists(
            st.sampled_from(['"', "\\", "[", "]", "[$€-407]", "0", "#,##0", ".00", "%", ";", "E+", "General", "é", ">"])
        ),
    )
    def test_no_format_stops_the_reader(self, value, form):
        code = "".join(form)
        formats = CellFormats({200: code}, [200], epoch=EPOCH)
        assert isinstance(formats.shown(value, 0), str)
        assert value in formats.shown_text(value, 0)

    @pytest.mark.parametrize("suffix", [".xlsm", ".xltx", ".xltm"])
    def test_other_suffixes(self, suffix):
        assert "City: Rome" in lines(workbook({"S": [["City"], ["Rome"]]}), f"a{suffix}")

    def test_a_cell_far_away(self):
        def fill(sheet: Worksheet) -> None:
            sheet["A1"] = "near"
            sheet["XFD1048576"] = "far"

        assert lines(book(fill)) == ["near", "far"]


class TestDelimiters:
    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            ("Name (last, first);City\nDoe, John;Rome\n", ["Name (last, first): Doe, John; City: Rome"]),
            ("item;price\ntea;1,50\nrice;2,25\n", ["item: tea; price: 1,50", "item: rice; price: 2,25"]),
            ("a|b\n1, 2|x, y\n3, 4|z, w\n", ["a: 1, 2; b: x, y", "a: 3, 4; b: z, w"]),
            (
                "Text, with commas, of a title\na\tb\n1\t2\n3\t4\n",
                ["Text, with commas, of a title", "a: 1; b: 2", "a: 3; b: 4"],
            ),
            ("id,note\n1,a;b;c\n2,d\n3,e;f\n", ["id: 1; note: a;b;c", "id: 2; note: d", "id: 3; note: e;f"]),
        ],
    )
    def test_from_the_whole_sample(self, text, rows):
        assert lines(text, "a.csv") == rows

    def test_quotes_after_a_space_and_after_a_backslash(self) -> None:
        text = 'name, "city, country"\nAda, "Rome, Italy"\nBob, "Paris, France"\n'
        assert lines(text, "a.csv") == [
            "name: Ada; city, country: Rome, Italy",
            "name: Bob; city, country: Paris, France",
        ]
        text = 'said,n\n"he said \\"hi, you\\" again",2\n"C:\\dir\\",3\n'
        assert lines(text, "a.csv") == ['said: he said "hi, you" again; n: 2', "said: C:\\dir\\; n: 3"]

    def test_quotes_of_prose_divide_no_columns(self) -> None:
        text = 'text\nShe said, "Yes."\nHe said, "No, never."\nThey laughed.\n'
        assert lines(text, "a.csv")[:2] == ['text: She said, "Yes."', 'text: He said, "No, never."']

    def test_declared_in_the_first_line(self):
        assert lines("sep=;\nname;n\nAda;1\n", "a.csv") == ["name: Ada; n: 1"]
        assert lines("SEP=|\nname|n\nAda|1\n", "a.csv") == ["name: Ada; n: 1"]
        assert lines('"sep=;"\nname;n\nAda;1\n', "a.csv") == ["name: Ada; n: 1"]

    def test_preamble_of_an_export(self):
        text = "Report: sales\nMade,2024-05-01\n\nRegion,Units,Price\nEast,5,2.5\nWest,6,3\n"
        assert lines(text, "a.csv") == [
            "Report: sales",
            "Made: 2024-05-01",
            "Region: East; Units: 5; Price: 2.5",
            "Region: West; Units: 6; Price: 3",
        ]


class TestOneColumn:
    """Commas and semicolons within the texts of a single column separate nothing."""

    @pytest.mark.parametrize(
        "cells",
        [
            pytest.param(["Paris, the capital, is large.", "Köln is old.", "Rome, too."], id="sentences"),
            pytest.param(["Paris; Seine", "Köln; Rhine; old", "Rome"], id="semicolons"),
            pytest.param(["12 Main St, Springfield, IL 62701", "1 Rue X, Paris, 75001"], id="addresses"),
            pytest.param(["Smith, John", "Doe, Jane", "Lovelace, Ada"], id="names"),
            pytest.param(['He said "yes", then left.', '"No", she said.', "Fine."], id="quotes"),
            pytest.param(["1,5", "2,7", "3,1"], id="decimal commas"),
            pytest.param(["About 1,200 people, or more,", "came to 3 towns, all told"], id="numbers in prose"),
        ],
    )
    def test_below_its_name(self, cells):
        assert lines("\n".join(["Note", *cells]), "a.csv") == [f"Note: {cell}" for cell in cells]
        quoted = "\n".join('"' + cell.replace('"', '""') + '"' for cell in ["Note", *cells])
        assert lines(quoted, "a.csv") == [f"Note: {cell}" for cell in cells]

    @pytest.mark.parametrize(
        "cells",
        [
            pytest.param(["Smith, John", "Doe, Jane", "Lovelace, Ada"], id="names"),
            pytest.param(["Last, First", "Doe, Jane", "Lovelace, Ada"], id="a name of the same form"),
            pytest.param(["12 Main St, Springfield, IL 62701", "1 Rue X, Paris, 75001"], id="addresses"),
            pytest.param(["Paris is big.", "Köln is old.", "Rome, too, is old."], id="sentences"),
            pytest.param(["Paris, France, Europe", "Lima, Peru, America", "Rome, Italy, Europe"], id="places"),
        ],
    )
    def test_without_a_name_has_none(self, cells):
        assert lines("\n".join(cells), "a.csv") == cells
        assert lines("\n".join(f'"{cell}"' for cell in cells), "a.csv") == cells

    @pytest.mark.parametrize(
        ("head", "rows"),
        [
            ("Name, City", ["John, Berlin", "Mary, Paris"]),
            ("Name, City", ["John, Berlin"]),
            ("First Name, Last Name", ["John, Smith", "Mary, Jones"]),
            ("Country, Capital", ["France, Paris", "Spain, Madrid", "Italy, Rome"]),
            ("Question, Answer", ["Who, Me", "Where, Here"]),
            ("Begriff; Bedeutung", ["CPU; Recheneinheit", "API; Schnittstelle"]),
            ("English, German", ["bread, Brot", "tree, Baum"]),
            ("Name, Flag", ["x, true", "y, false"]),
        ],
    )
    def test_two_columns_of_texts_are_divided_below_their_names(self, head: str, rows: list[str]) -> None:
        names, *values = (re.split("[,;] ", row) for row in (head, *rows))
        wanted = [f"{names[0]}: {left}; {names[1]}: {right}" for left, right in values]
        assert lines("\n".join([head, *rows]), "a.csv") == wanted

    @pytest.mark.parametrize("head", ["Cities, countries", "Facts about a country, some", "Paris, France"])
    def test_other_first_rows_name_no_columns(self, head: str) -> None:
        cells = [head, "Berlin, Germany", "Rome, Italy"]
        assert lines("\n".join(cells), "a.csv") == cells

    @pytest.mark.parametrize("count", [1, 4, 30])
    @pytest.mark.parametrize("title", ["", "Figures of the year\n\n"])
    def test_notes_below_a_table_take_no_columns_from_it(self, title: str, count: int) -> None:
        notes = [f"note {'x' * number}, as told" if number % 2 else f"note {'x' * number}" for number in range(count)]
        found = lines(title + "a,b\n1,2\n3,4\n" + "\n".join(notes), "a.csv")
        assert [line for line in found if line[0] == "a"][:2] == ["a: 1; b: 2", "a: 3; b: 4"]

    @pytest.mark.parametrize(
        "text",
        ["one,two\nthree\nfour\nfive\nsix", "Hello,\nyou,\nwho\nread\nthis\nhere", "Of\na,b\nc,d\ne\nf\ng\nh\ni"],
    )
    def test_few_divided_lines_are_no_table(self, text: str) -> None:
        assert "; " not in "\n".join(lines(text, "a.csv"))

    def test_a_title_that_holds_commas_stays_whole(self):
        text = '"Remarks, collected; by Ada"\n"Paris is large."\nKöln; old\n"Rome, too"\n'
        assert lines(text, "a.csv") == [
            f"Remarks, collected; by Ada: {cell}" for cell in ("Paris is large.", "Köln; old", "Rome, too")
        ]

    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            ("name, age\nAda, 36\nAlan, 41\n", ["name: Ada; age: 36", "name: Alan; age: 41"]),
            ("name, city\nAda, London\n", ["name: Ada; city: London"]),
            ("Name, Job, City\nAda, Mathematician, Paris\n", ["Name: Ada; Job: Mathematician; City: Paris"]),
            ("a,b\n" + "1,2\n" * 2, ["a: 1; b: 2"] * 2),
            ("1,2\n2,7\n", ["1; 2", "2; 7"]),
            ("id,note\n1,Paris, too\n", ["id: 1; note: Paris; Column 3: too"]),
        ],
    )
    def test_columns_stay_columns(self, text, rows):
        assert lines(text, "a.csv") == rows


class TestOpenQuotes:
    def test_cost_their_line_alone(self):
        text = 'size,n\n"12 inch,5\n8 inch,6\n"6 inch",7\n'
        assert lines(text, "a.csv") == ['size: "12 inch; n: 5', "size: 8 inch; n: 6", "size: 6 inch; n: 7"]

    def test_at_the_end_and_in_the_middle(self):
        assert lines('a,b\n1,"x\n2,y\n3,"z', "a.csv") == ['a: 1; b: "x', "a: 2; b: y", 'a: 3; b: "z']

    def test_lines_within_closed_quotes_are_one_cell(self):
        assert lines('a,b\n1,"x\ny, and ""z"""\n2,w\n', "a.csv") == ['a: 1; b: x y, and "z"', "a: 2; b: w"]

    @given(st.lists(st.text(alphabet='ab",;\n', max_size=12), max_size=8))
    @settings(deadline=None)
    def test_no_line_is_lost(self, texts):
        given_lines = [line + "\n" for line in "\n".join(texts).split("\n")]
        found = list(itertools.chain.from_iterable(split_rows(iter(given_lines), ",")))
        for letter in "ab":
            assert "".join(found).count(letter) == "".join(given_lines).count(letter)


def test_more_rows_than_a_table_can_be_long():
    rows = [["n", "word"], *([str(number), f"w{number}"] for number in range(20_000))]
    text = read_document("\n".join(map(",".join, rows)).encode(), uri="a.csv").text
    assert text.endswith("n: 19999; word: w19999")
    with pytest.raises(DocumentError, match="longer than"):
        read_document("\n".join(map(",".join, rows)).encode(), uri="a.csv", limits=ReadLimits(max_characters=10_000))
