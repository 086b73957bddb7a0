"""OpenDocument, and Office files of before 2007."""

from __future__ import annotations

import struct
from typing import ClassVar

import pytest
from office_files import NAMES as OFFICE_NAMES
from office_files import OFFICE
from other_office_samples import (
    NAMES,
    binary_cell,
    binary_record,
    binary_workbook,
    cell,
    content,
    datasheet_cell,
    drawn_text,
    excel_4,
    excel_97,
    graph,
    old_chart,
    old_text,
    old_word,
    open_document,
    other_office_samples,
    p,
    powerpoint_95,
    powerpoint_97,
    record,
    row,
    wide,
)
from outlook_files import compound_file
from sample_files import unzipped, with_part, zip_of

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.document import read_document
from ingest.readers.legacy_office import _blocks, _count, _is_embedded, _is_list, _missing, _notes
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Block


def read(data: bytes | str, uri: str) -> ExtractedText:
    return read_document(data.encode() if isinstance(data, str) else data, uri=uri)


def lines(data: bytes | str, uri: str) -> list[str]:
    return read(data, uri).text.split("\n\n")


class TestOpenDocumentTexts:
    def test_text_with_notes_boxes_and_changes(self):
        inner = (
            f"<text:tracked-changes>{p('deleted')}</text:tracked-changes><text:h text:outline-level='2'>Of cities</text:h>"
            "<text:p>Rome<text:s text:c='2'/><text:span>lies\n here</text:span><text:note text:note-class='footnote'>"
            f"<text:note-citation>1</text:note-citation><text:note-body>{p('On the Tiber.')}</text:note-body></text:note>."
            f"<draw:frame><svg:desc>A map</svg:desc><draw:text-box>{p('Boxed')}</draw:text-box></draw:frame>"
            f"<office:annotation><dc:creator>Ann</dc:creator><dc:date>2024</dc:date>{p('Sure?')}</office:annotation></text:p>"
            f"<text:list><text:list-item>{p('An item')}</text:list-item></text:list><text:section>{p('Last')}</text:section>"
        )
        meta = f"<office:document-meta {NAMES}><office:meta><meta:initial-creator>Ada</meta:initial-creator><meta:creation-date>2024-05-01T10:00:00</meta:creation-date></office:meta></office:document-meta>"
        styles = f"<office:document-styles {NAMES}><style:master-page><style:header>{p('Head')}</style:header><style:footer>{p('Foot')}</style:footer></style:master-page></office:document-styles>"
        data = open_document("text", inner, meta=meta, styles=styles)
        assert lines(data, "a.odt") == [
            *("Head", "Of cities", "Rome  lies here.", "Footnote: On the Tiber.", "Picture: A map", "Boxed"),
            *("Comment by Ann: Sure?", "An item", "Last", "Foot"),
        ]
        found = read(data, "a.odt")
        assert found.metadata == {"author": "Ada", "created": "2024-05-01"}
        assert (found.title, [mark.level for mark in found.marks]) == ("Of cities", [2])

    def test_lists_and_headings_have_their_numbers(self):
        def level(depth: int, form: str, more: str = "", kind: str = "list-level-style-number") -> str:
            return f"<text:{kind} text:level='{depth}' style:num-format='{form}' {more}/>"

        def item(*inner: str, start: str = "") -> str:
            return f"<text:list-item{start and f' text:start-value={start!r}'}>{''.join(inner)}</text:list-item>"

        def listed(*items: str, more: str = "text:style-name='L1'") -> str:
            return f"<text:list {more}>{''.join(items)}</text:list>"

        def heading(depth: int, text: str, more: str = "") -> str:
            return f"<text:h text:outline-level='{depth}' {more}>{text}</text:h>"

        end, dots = "style:num-suffix=')'", level(1, "").replace("-number", "-bullet")
        numbered = (
            level(1, "1", "style:num-suffix='.'"),
            level(2, "a", f"style:num-prefix='(' {end} text:start-value='3'"),
            level(3, "i", "text:display-levels='3'"),
            level(4, "I", "loext:num-list-format='%1%/%4%'"),
        )
        outline = (
            level(1, "1", kind="outline-level-style"),
            level(2, "1", "text:display-levels='2'", kind="outline-level-style"),
        )
        styles = (
            f"<office:document-styles {NAMES}><text:list-style style:name='L1'>{''.join(numbered)}</text:list-style>"
            f"<text:list-style style:name='L2'>{dots}</text:list-style>"
            f"<text:outline-style>{''.join(outline)}</text:outline-style></office:document-styles>"
        )
        inner = (
            heading(1, "Cities"),
            heading(2, "Of Italy"),
            heading(2, "Left out", "text:is-list-header='true'"),
            heading(2, "Of Spain"),
            heading(1, "Rivers"),
            heading(2, "All", "text:restart-numbering='true' text:start-value='7'"),
            listed(
                item(p("Rome"), p("On the Tiber.")),
                item(p("Turin"), listed(item(p("Po")), item(p("Dora"), listed(item(p("Deep")), more="")), more="")),
                item(p("")),
                item(listed(item(listed(item(listed(item(p("Deeper")), more="")), more="")), more="")),
            ),
            listed(
                item(p("Milan"), start="9"), more="text:style-name='L1' text:continue-numbering='true' xml:id='first'"
            ),
            listed(item(p("Anew"))),
            listed(item(p("On")), more="text:style-name='L1' text:continue-list='first'"),
            listed(item(p("Dot")), more="text:style-name='L2'"),
            listed(
                "<text:list-header>" + p("Head") + "</text:list-header>",
                item("<text:p><text:number>1.</text:number>Last</text:p>"),
            ),
        )
        assert lines(open_document("text", "".join(inner), styles=styles), "a.odt") == [
            *("1 Cities", "1.1 Of Italy", "Left out", "1.2 Of Spain", "2 Rivers", "2.7 All"),
            *("1. Rome", "On the Tiber.", "2. Turin", "(c) Po", "(d) Dora", "2.d.i Deep", "3/I Deeper"),
            *("9. Milan", "1. Anew", "10. On", "Dot", "Head", "1. Last"),
        ]

    def test_numbers_in_a_cell(self):
        style = "<text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='1'/>"
        styles = f"<office:document-styles {NAMES}>{style}</text:list-style></office:document-styles>"
        listed = f"<text:list text:style-name='L'><text:list-item>{p('Rome')}</text:list-item></text:list>"
        tables = f"<table:table>{row(cell('Land'), cell('Cities'))}{row(cell('Italy'), cell('So:', more=listed))}</table:table>"
        assert lines(open_document("text", tables, styles=styles), "a.odt") == ["Land: Italy; Cities: So: 1 Rome"]

    def test_numbers_alone_in_their_cells(self):
        style = "<text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='1'/>"
        styles = f"<office:document-styles {NAMES}>{style}</text:list-style></office:document-styles>"
        listed = "<text:list text:style-name='L' text:continue-numbering='true'><text:list-item><text:p/></text:list-item></text:list>"
        rows = [row(cell("", more=listed), cell(name)) for name in ("Rome", "Turin")]
        tables = f"<table:table>{row(cell('No'), cell('City'))}{''.join(rows)}</table:table>{listed}"
        found = lines(open_document("text", tables, styles=styles), "a.odt")
        assert found == ["No: 1; City: Rome", "No: 2; City: Turin"]

    def test_controls_of_forms_show_their_labels_and_values(self):
        options = "<form:option form:label='Red'/><form:option form:label='Blue' form:current-selected='true'/>"
        controls = (
            "<form:text form:id='c1' form:value='old' form:current-value='Ada'/><form:password form:id='c2' "
            "form:value='secret'/><form:checkbox form:id='c3' form:label='Agreed' form:current-state='checked'/>"
            "<form:radio form:id='c4' form:label='Card'/><form:button form:id='c5' form:label='Send'/>"
            f"<form:listbox form:id='c6'>{options}</form:listbox>"
            f"<form:listbox form:id='c7' form:dropdown='true'>{options}</form:listbox>"
        )
        places = "".join(f"<text:p>{n}: <draw:control draw:control='c{n}'/></text:p>" for n in range(1, 9))
        inner = f"<office:forms><form:form>{controls}</form:form></office:forms>{places}"
        assert lines(open_document("text", inner), "a.odt") == [
            *("1: Ada", "2:", "3: ☑ Agreed", "4: ☐ Card", "5: Send", "6: Red\nBlue", "7: Blue", "8:"),
        ]

    def test_fields_that_share_their_names_with_parts_of_comments(self):
        inner = "<text:p>By <text:creator>Ada</text:creator> on <text:date>1 May</text:date></text:p>"
        assert lines(open_document("text", inner), "a.odt") == ["By Ada on 1 May"]

    def test_embedded_files_are_counted(self):
        inner = f"{p('Text')}<text:p><draw:frame><draw:object-ole xlink:href='./Object 1'/></draw:frame></text:p>"
        found = read(open_document("text", inner), "a.odt")
        assert found.metadata == {"skipped_parts": 1, "skipped": "Object 1: An embedded file is not read."}

    def test_formula(self):
        inner = "<math><mtext>where</mtext><mi>a</mi><mo>=</mo><mi>sin</mi><mn>2</mn><mtext>holds</mtext></math>"
        frame = "<text:p><draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
        files = {"content.xml": content("text", frame), "Object 1/content.xml": inner}
        assert lines(zip_of(files), "a.odt") == ["where a= sin 2 holds"]

    def test_tables(self):
        covered = "<table:covered-table-cell/>"
        rows = (
            row(cell("Region"), cell("Land"), cell("Units")),
            row(cell("East", "table:number-rows-spanned='2'"), cell("A"), cell("1")),
            row(covered, cell("B"), cell("2")),
            row(cell("All", "table:number-columns-spanned='2'"), covered, cell("3")),
        )
        data = open_document("text", f"<table:table>{''.join(rows)}</table:table>")
        assert lines(data, "a.odt") == [
            "Region: East; Land: A; Units: 1",
            "Region: East; Land: B; Units: 2",
            "Region: All; Units: 3",
        ]

    def test_flat_file(self):
        flat = content("text", p("One file.")).replace("document-content", "document")
        assert lines(f"<?xml version='1.0'?>{flat}", "a.fodt") == ["One file."]

    def test_chart_has_its_values_in_a_table(self):
        frame = "<text:p><draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
        table = f"<table:table>{row(cell('Land'), cell('Units'))}{row(cell('Italy'), cell('5'))}</table:table>"
        files = {"content.xml": content("text", frame), "Object 1/content.xml": content("chart", p("Harvest") + table)}
        assert lines(zip_of(files), "a.odt") == ["Harvest", "Land: Italy; Units: 5"]

    def test_titles_of_charts_and_their_axes(self):
        frame = "<text:p><draw:frame><draw:object xlink:href='./Object 1'/></draw:frame></text:p>"
        axis = (
            f"<chart:plot-area><chart:axis><chart:title>{p('in tonnes')}</chart:title></chart:axis></chart:plot-area>"
        )
        titles = f"<chart:title>{p('Harvest')}</chart:title><chart:subtitle>{p('of 2024')}</chart:subtitle>{axis}"
        chart = content("chart", f"<chart:chart>{titles}</chart:chart>")
        found = lines(zip_of({"content.xml": content("text", frame), "Object 1/content.xml": chart}), "a.odt")
        assert found == ["Chart: Harvest", "of 2024", "in tonnes"]

    def test_hidden_texts_are_left_out(self):
        style = (
            "<style:style style:name='T1' style:family='{}'><style:text-properties text:display='none'/></style:style>"
        )
        inner = (
            f"{style.format('text')}<text:p text:style-name='T1'>Seen <text:span text:style-name='T1'>unseen</text:span>"
            "<text:hidden-text text:is-hidden='true'>unseen</text:hidden-text>too</text:p>"
            f"<text:section text:display='none'>{p('unseen')}</text:section>"
        )
        assert lines(open_document("text", inner), "a.odt") == ["Seen too"]
        paragraphs = f"{style.format('paragraph')}<text:p text:style-name='T1'>unseen</text:p>{p('Seen')}"
        assert lines(open_document("text", paragraphs), "a.odt") == ["Seen"]

    def test_password(self):
        manifest = f"<manifest:manifest {NAMES}><manifest:encryption-data/></manifest:manifest>"
        data = zip_of({"content.xml": "secret", "META-INF/manifest.xml": manifest})
        with pytest.raises(DocumentError, match="password"):
            read(data, "a.odt")


class TestOpenDocumentSheets:
    def test_sheets_gaps_repeats_and_comments(self):
        rows = (
            row(cell("Report")),
            "<table:table-row table:number-rows-repeated='1048000'><table:table-cell/></table:table-row>",
            row(cell("City"), cell("Units")),
            row(
                "<table:table-cell><office:annotation><dc:creator>Ann</dc:creator>"
                + p("Sure?")
                + f"</office:annotation>{p('Rome')}</table:table-cell>",
                cell("5"),
            ),
            f"<table:table-row table:number-rows-repeated='2'>{cell('Oslo')}{cell('7')}</table:table-row>",
            row(cell("All"), "<table:table-cell table:formula='of:=SUM([.B1])'/>"),
            row(cell("None"), "<table:table-cell table:formula='of:=T(1)' office:value-type='string'/>"),
            row(cell("Some"), "<table:table-cell table:formula='of:=T(1)' office:string-value='ten'/>"),
        )
        data = open_document(
            "spreadsheet",
            f"<table:table table:name='Towns'>{''.join(rows)}</table:table><table:table table:name='Empty'/>",
        )
        assert lines(data, "a.ods") == [
            *("Sheet Towns", "Report", "City: Rome; Units: 5", "City: Oslo; Units: 7", "City: Oslo; Units: 7"),
            *("City: All; Units: =SUM([.B1])", "City: None", "City: Some; Units: ten", "Comment by Ann: Sure?"),
        ]

    def test_shapes_in_cells_stand_beside_them(self):
        shapes = "".join(f"<draw:{kind}>{p(kind)}</draw:{kind}>" for kind in ("custom-shape", "g", "rect"))
        rows = row(cell("City"), cell("Units")) + row(cell("Rome", more=shapes), cell("5"))
        data = open_document("spreadsheet", f"<table:table table:name='T'>{rows}</table:table>")
        assert lines(data, "a.ods") == ["Sheet T", "City: Rome; Units: 5", "custom-shape", "g", "rect"]

    def test_headers_and_footers_of_printed_pages(self):
        number = "<text:p>Page <text:page-number>1</text:page-number> of <text:page-count>9</text:page-count></text:p>"
        name = "<text:p><text:span>Draft of <text:sheet-name>A</text:sheet-name></text:span></text:p>"
        name += "<text:p>ACME page <text:page-number>1</text:page-number></text:p>"
        masters = (
            f"<style:master-page style:name='M'><style:header><style:region-left>{name}</style:region-left></style:header>"
            f"<style:footer>{number}</style:footer><style:footer-left style:display='false'>{p('Never')}</style:footer-left>"
            f"</style:master-page><style:master-page style:name='N'><style:header>{p('Unused')}</style:header>"
            "</style:master-page>"
        )
        styles = f"<office:document-styles {NAMES}>{masters}</office:document-styles>"
        style = "<style:style style:name='S' style:family='table' style:master-page-name='M'/>"
        sheet = "<table:table table:name='{0}' table:style-name='S'>{1}</table:table>"
        sheets = sheet.format("A", row(cell("x"))) + sheet.format("B", row(cell("y")))
        data = open_document("spreadsheet", style + sheets, styles=styles)
        assert lines(data, "a.ods") == ["Sheet A", "x", "Draft of", "ACME page", "Sheet B", "y"]

    def test_messages_of_cells(self):
        rule = "<table:content-validation table:name='{}'><table:help-message table:title='Pick' table:display='{}'>"
        rules = "".join(
            f"{rule.format(name, shows)}{p('One of them')}</table:help-message></table:content-validation>"
            for name, shows in (("v", "true"), ("w", "false"))
        )
        cells = [cell(name, f"table:content-validation-name='{name}'") for name in ("v", "v", "w")]
        data = open_document("spreadsheet", f"{rules}<table:table table:name='S'>{row(*cells)}</table:table>")
        assert lines(data, "a.ods") == ["Sheet S", "v; v; w", "Message: Pick: One of them"]

    def test_rows_without_end_are_told(self):
        rows = (
            row(cell("A"), cell("B"))
            + f"<table:table-row table:number-rows-repeated='5000'>{cell('x')}{cell('1')}</table:table-row>"
        )
        found = read(open_document("spreadsheet", f"<table:table table:name='T'>{rows}</table:table>"), "a.ods")
        assert found.text.count("A: x; B: 1") == 1_000
        assert "Equal rows that are left out: 4,000." in str(found.metadata["skipped"])

    def test_another_kind_is_refused(self):
        with pytest.raises(DocumentError, match=r"opendocument\.database"):
            read(open_document("database", p("x")), "a.ods")


class TestOpenDocumentSlides:
    def page(self, title: str, body: str) -> str:
        return (
            f"<draw:page><draw:frame presentation:class='title'><draw:text-box>{p(title)}</draw:text-box></draw:frame>"
            f"<draw:custom-shape>{p(body)}</draw:custom-shape><presentation:notes><draw:frame><draw:text-box>{p('Slowly.')}"
            "</draw:text-box></draw:frame></presentation:notes></draw:page>"
        )

    def test_pages(self):
        found = read(open_document("presentation", self.page("One", "Body") + self.page("Two", "More")), "a.odp")
        assert found.text.split("\n\n") == ["One", "Body", "Notes: Slowly.", "Two", "More", "Notes: Slowly."]
        assert [found.text[start : start + 3] for start in found.page_starts] == ["One", "Two"]
        assert (found.title, found.metadata) == ("One", {"pages": 2})
        assert [mark.level for mark in found.marks] == [1, 1]

    def test_what_stands_on_all_slides_is_said_where_it_is_shown_first(self):
        master = (
            f"<style:master-page style:name='M'><draw:frame presentation:class='title'>{p('number')}</draw:frame>"
            f"<draw:frame><draw:text-box>{p('ACME Ltd')}</draw:text-box></draw:frame>"
            f"<draw:frame presentation:class='footer'>{p('Master foot')}</draw:frame>"
            f"<presentation:notes>{p('no')}</presentation:notes></style:master-page>"
        )
        styles = f"<office:document-styles {NAMES}>{master}</office:document-styles>"
        declared = "<presentation:footer-decl presentation:name='f'>Internal\n use</presentation:footer-decl>"
        page = "<draw:page draw:master-page-name='M' presentation:use-footer-name='f'>{}</draw:page>"
        data = open_document("presentation", declared + page.format(p("One")) + page.format(p("Two")), styles=styles)
        assert lines(data, "a.odp") == ["One", "Internal use", "ACME Ltd", "Master foot", "Two"]

    def test_too_many(self):
        data = open_document("presentation", self.page("One", "x") * 2)
        with pytest.raises(DocumentError, match="2 slides; the limit is 1"):
            read_document(data, uri="a.odp", limits=ReadLimits(max_pages=1))


def test_workbook_of_1997_shows_numbers_as_their_formats_do():
    rows = [["Item", "Price", "Share", "Day"], ["Tea", 1599.9, 0.025, 45413.5], ["two\nlines", 2.0, 0.5, 45414.0]]
    data = excel_97(rows, ["General", '"$"#,##0.00', "0.0%", "d/m/yyyy"])
    assert lines(data, "a.xls") == [
        "Sheet S",
        "Item: Tea; Price: $1,599.90; Share: 2.5%; Day: 2024-05-01",
        "Item: two lines; Price: $2.00; Share: 50.0%; Day: 2024-05-02",
    ]


class TestBesideTheCellsOfOldWorkbooks:
    ROWS: ClassVar[list[list[str | float]]] = [["City", "Units"], ["Rome", 5.0]]

    def shown(self, more: bytes) -> list[str]:
        return lines(excel_97(self.ROWS, ["General"], more), "a.xls")

    def test_text_boxes_and_comments(self):
        note = record(0x001C, struct.pack("<HHHH", 1, 27, 0, 2) + old_text("Ada"))
        more = drawn_text(1, "Boxed, in two ", "parts – of two kinds") + drawn_text(2, "Sure?", kind=0x19) + note
        assert self.shown(more) == [
            "Sheet S",
            "City: Rome; Units: 5",
            "Boxed, in two parts – of two kinds",
            "Comment on AB2 by Ada: Sure?",
        ]

    def test_text_boxes_with_one_id(self):
        boxes = drawn_text(1, "One") + drawn_text(1, "Two")
        assert self.shown(boxes) == ["Sheet S", "City: Rome; Units: 5", "One", "Two"]
        note = record(0x001C, struct.pack("<HHHH", 1, 27, 0, 1) + old_text("Ada"))
        assert self.shown(boxes + note)[2:] == ["Comment on AB2 by Ada: One\nTwo"]

    def test_messages_of_cells(self):
        texts = old_text("Pick") + old_text("\0") + old_text("One of them") + old_text("\0")
        rules = [record(0x01BE, struct.pack("<I", flags) + texts) for flags in (1 << 18, 0)]
        assert self.shown(rules[0] + rules[1]) == ["Sheet S", "City: Rome; Units: 5", "Message: Pick: One of them"]

    def test_headers_and_footers(self):
        further = bytes(30) + struct.pack("<HHHH", 0, 0, 5, 0) + bytes(0) + old_text("First")
        more = record(0x0014, old_text("&LACME &P")) + record(0x0015, old_text("&P / &N")) + record(0x089C, further)
        assert self.shown(more) == ["Sheet S", "City: Rome; Units: 5", "ACME", "First"]

    def test_charts(self):
        chart = old_chart("Harvest", "Tons", ["Tea", "Rice"], ["North", "South"], [[1.5, 2.0], [3.0, 4.0]])
        assert self.shown(chart) == [
            "Sheet S",
            "City: Rome; Units: 5",
            "Chart: Harvest",
            "Tons",
            "Category: North; Tea: 1.5; Rice: 3",
            "Category: South; Tea: 2; Rice: 4",
        ]

    def test_damaged_records_cost_only_what_they_hold(self):
        assert self.shown(record(0x001C, b"\0"))[:2] == ["Sheet S", "City: Rome; Units: 5"]

    def test_encrypted_is_protected(self):
        with pytest.raises(DocumentError, match="protected by a password"):
            read(excel_97(self.ROWS, ["General"], head_more=record(0x002F, bytes(54))), "a.xls")


def test_margins_of_a_workbook_of_1995():
    head = record(0x0809, struct.pack("<HHHH", 0x0500, 5, 0, 0)) + record(0x0042, struct.pack("<H", 1251))
    head += record(0x0085, struct.pack("<IHB", len(head) + 16, 0, 1) + b"S") + record(0x000A, b"")
    margins = [(0x0014, "&CОтчёт за &D"), (0x0015, "&RСтраница &P")]
    sheet = record(0x0809, struct.pack("<HHHH", 0x0500, 0x10, 0, 0))
    sheet += b"".join(record(kind, bytes([len(text)]) + text.encode("cp1251")) for kind, text in margins)
    sheet += record(0x0203, struct.pack("<HHHd", 0, 0, 0, 5.0)) + record(0x000A, b"")
    assert lines(compound_file({"Book": head + sheet}), "a.xls") == ["Sheet S", "5", "Отчёт за", "Страница"]


def test_notes_comments_and_footers_of_old_slides():
    data = powerpoint_97(
        ("One", "Body"),
        ("Two", "More"),
        notes={1: "Slowly.\rThen faster.", 0: "Body"},
        comments={0: ("Ada", "Sure?"), 1: ("", "Yes")},
        footers={0: "ACME", 1: "ACME"},
    )
    assert lines(data, "a.ppt") == [
        *("One", "Body", "Comment by Ada: Sure?", "ACME"),
        *("Two", "More", "Notes: Slowly.\nThen faster.", "Comment: Yes"),
    ]


def test_slides_of_1995():
    found = read(powerpoint_95("A café\r\rOverview\rof all\r\r\rThe end …\r\r"), "a.ppt")
    assert found.text.split("\n\n") == ["A café", "Overview\nof all", "The end …"]
    assert found.title == "A café"


def test_charts_of_microsoft_graph_show_their_datasheet():
    rows = [["", 2002.0, 2003.0], ["Partner–A", 4175.0, 3406.5], ["All", 7.0, 8.0]]
    damaged = datasheet_cell(1, 60_000, "far") + record(0x0004, b"\1\0")
    assert lines(graph("Budgets", rows, damaged), "a.xls") == [
        "Chart: Budgets",
        "Partner–A; 2002: 4175; 2003: 3406.5",
        "All; 2002: 7; 2003: 8",
    ]


def test_workbook_of_1992():
    assert lines(excel_4([["City", "Units"], ["Köln", 5.0]]), "a.xls") == ["Sheet1", "City: Köln; Units: 5"]


class TestBinaryWorkbooks:
    def test_every_kind_of_cell_is_shown_as_its_format_says(self):
        packed = [struct.pack("<i", 7 << 2 | 2), struct.pack("<i", 725 << 2 | 3), struct.pack("<d", 2.5)[4:]]
        names = [binary_cell(7, column, struct.pack("<I", column)) for column in range(3)]
        rows = {
            0: names,
            1: [binary_cell(6, 0, wide("whole")), binary_cell(2, 1, packed[0])],
            2: [binary_cell(6, 0, wide("hundredths")), binary_cell(2, 1, packed[1], style=1)],
            3: [binary_cell(62, 0, b"\0" + wide("half a float")), binary_cell(2, 1, packed[2])],
            4: [binary_cell(8, 0, wide("formula")), binary_cell(9, 1, struct.pack("<d", 0.1), style=2)],
            5: [binary_cell(6, 0, wide("error")), binary_cell(3, 1, b"\x07"), binary_cell(11, 2, b"\x17")],
            6: [binary_cell(6, 0, wide("truth")), binary_cell(4, 1, b"\1"), binary_cell(10, 2, b"\0")],
            7: [
                binary_cell(6, 0, wide("next")),
                binary_record(16, bytes(4) + struct.pack("<d", 1e300)),
                binary_record(18, bytes(8)),
            ],
            8: [binary_cell(6, 0, wide("day")), binary_cell(5, 1, struct.pack("<d", 45413.0), style=3)],
            9: [binary_cell(6, 0, wide("no text")), binary_cell(7, 1, struct.pack("<I", 99)), binary_cell(1, 2, b"")],
        }
        data = binary_workbook(rows, texts=["Kind", "Value", "More"], formats=['0.00" €"', "0.0%", "d/m/yyyy"])
        assert lines(data, "a.xlsb") == [
            "Sheet S",
            "Kind: whole; Value: 7",
            "Kind: hundredths; Value: 7.25 €",
            "Kind: half a float; Value: 2.5",
            "Kind: formula; Value: 10.0%",
            "Kind: error; Value: #DIV/0!; More: #REF!",
            "Kind: truth; Value: TRUE; More: FALSE",
            "Kind: next; Value: 1e+300; More: Kind",
            "Kind: day; Value: 2024-05-01",
            "Kind: no text",
        ]

    def test_comments_margins_and_merged_cells(self):
        rows = {
            0: [binary_cell(6, 0, wide("City")), binary_cell(6, 1, wide("Units"))],
            1: [binary_cell(6, 0, wide("Rome")), binary_cell(6, 1, wide("5"))],
            2: [binary_cell(6, 1, wide("6"))],
        }
        margins = struct.pack("<H", 0) + wide('&LMade by &"Arial"ACME') + b"\xff" * 4 + wide("&P")
        more = binary_record(176, struct.pack("<IIII", 1, 2, 0, 0)) + binary_record(479, margins)
        ranges = struct.pack("<I8I", 2, 0, 2, 1, 1, 4, 4, 0, 0)
        for flags in (0x40000, 0):  # shown, not shown
            texts = b"".join(map(wide, ("Wrong", "No number.", "Length", "In km.")))
            more += binary_record(64, struct.pack("<I", flags) + ranges + texts)
        comments = [("Ada", 1, 0, "On the Tiber."), ("", 2, 27, "Far away."), ("", 3, 0, "[Threaded comment]\nNo.")]
        assert lines(binary_workbook(rows, more=more, comments=comments), "a.xlsb") == [
            "Sheet S",
            "City: Rome; Units: 5",
            "City: Rome; Units: 6",
            "Message on B1:B3 A5: Length: In km.",
            "Comment on A2 by Ada: On the Tiber.",
            "Comment on AB3: Far away.",
            "Made by ACME",
        ]

    def test_a_file_of_excel_2007_before_its_release(self):
        data = binary_workbook({0: [binary_cell(6, 0, wide("An example"))]}, is_early=True)
        assert lines(data, "a.xlsb") == ["Sheet S", "An example"]

    def test_a_sheet_without_a_part_is_told(self):
        data = binary_workbook({}, comments=[("", 0, 0, "Kept.")])
        lost = with_part(data, "xl/workbook.bin", lambda part: part + binary_record(156, bytes(8) + wide("no") * 2))
        found = read(lost, "a.xlsb")
        assert found.text == "Sheet S\n\nComment on A1: Kept."
        assert found.metadata == {"skipped_parts": 1, "skipped": "xl/workbook.bin: A sheet has no part."}

    @pytest.mark.parametrize("part", ["xl/workbook.bin", "xl/worksheets/sheet1.bin"])
    def test_a_part_that_is_cut_off_is_damaged(self, part):
        with pytest.raises(DocumentError, match=r"damaged \(error: A (?:record|text) .*is cut off"):
            read(with_part(other_office_samples()["a.xlsb"], part, lambda data: data[:-1]), "a.xlsb")

    SHEET_PART = "xl/worksheets/sheet1.bin"

    @pytest.mark.parametrize("size", [None, 0, -1, -3])
    @pytest.mark.parametrize(
        ("part", "kept"),
        [
            ("xl/comments1.bin", ["City: Rome; Width: 8.5 m"]),
            ("xl/styles.bin", ["City: Rome; Width: 8.5", "Comment on A2 by Ada: On the Tiber."]),
            ("xl/sharedStrings.bin", ["Width: 8.5 m", "No values: City", "Comment on A2 by Ada: On the Tiber."]),
            ("xl/tables/table1.bin", ["City: Rome; Width: 8.5 m", "Comment on A2 by Ada: On the Tiber."]),
        ],
    )
    def test_damage_beside_the_sheets_is_told(self, part: str, kept: list[str], size: int | None) -> None:
        rows = {
            0: [binary_cell(6, 0, wide("City")), binary_cell(6, 1, wide("Width"))],
            1: [binary_cell(7, 0, struct.pack("<I", 0)), binary_cell(5, 1, struct.pack("<d", 8.5), 1)],
        }
        table = f'<Relationship Id="t" Type="{OFFICE}/table" Target="/xl/tables/table1.bin"/>'
        whole = binary_workbook(
            rows,
            texts=["Rome"],
            formats=['0.0" m"'],
            comments=[("Ada", 1, 0, "On the Tiber.")],
            relations=table,
            parts={"xl/tables/table1.bin": binary_record(343, struct.pack("<II", 0, 1))},
        )
        assert "skipped" not in read(whole, "a.xlsb").metadata
        files = unzipped(whole)
        rest = {name: data for name, data in files.items() if name != part}
        found = read(zip_of(rest if size is None else rest | {part: files[part][:size] or b"\xff"}), "a.xlsb")
        assert found.metadata["skipped"].startswith(f"{part}: It is missing or damaged (")
        assert found.text.split("\n\n")[1:] == kept

    def test_what_stands_before_damage_is_read(self) -> None:
        data = binary_workbook({}, comments=[("Ada", 1, 0, "First."), ("Ada", 2, 0, "Second.")])
        found = read(with_part(data, "xl/comments1.bin", lambda part: part[:-3]), "a.xlsb")
        assert found.text == "Sheet S\n\nComment on A2 by Ada: First."
        assert found.metadata["skipped"] == "xl/comments1.bin: It is missing or damaged (error)."

    def test_cells_without_their_texts_are_counted(self) -> None:
        cells = [binary_cell(7, at, struct.pack("<I", at)) for at in range(3)]
        found = read(binary_workbook({0: cells}, texts=["Kept"]), "a.xlsb")
        assert found.text == "Sheet S\n\nKept"
        assert found.metadata["skipped"] == f"{self.SHEET_PART}: The texts of 2 cells are missing."

    @pytest.mark.parametrize("record", [binary_record(479, b"\0\0\5\0\0\0a"), binary_record(176, b"\0")])
    def test_a_damaged_margin_or_merge_is_told(self, record: bytes) -> None:
        merged = binary_record(176, struct.pack("<IIII", 0, 1, 0, 0))
        rows = {0: [binary_cell(6, 0, wide("A")), binary_cell(6, 1, wide("b"))], 1: [binary_cell(6, 1, wide("c"))]}
        found = read(binary_workbook(rows, more=record + record + merged), "a.xlsb")
        assert found.text == "Sheet S\n\nA: A; b: c"
        assert found.metadata["skipped"] == f"{self.SHEET_PART}: It is missing or damaged (error)."

    @pytest.mark.parametrize("code", ["0\xa0€", '0\\\xa0"€"', "0\u2009€", "0\u202f€", '0" \x07€"', '0" \ufffe€"'])
    def test_units_behind_spaces_of_any_kind(self, code: str) -> None:
        rows = {0: [binary_cell(6, 0, wide("Price")), binary_cell(5, 1, struct.pack("<d", 7.0), 1)]}
        assert lines(binary_workbook(rows, formats=[code]), "a.xlsb")[-1].endswith("7 €")

    def test_blank_cells_keep_the_columns_of_those_right_of_them(self) -> None:
        rk = struct.pack("<Ii", 0, 5 << 2 | 2)
        rows = {
            0: [binary_cell(6, at, wide(text)) for at, text in enumerate(["Name", "Alpha", "Beta"])],
            1: [binary_cell(6, 0, wide("x")), binary_cell(1, 1, b""), binary_record(13, rk)],
            2: [binary_cell(6, 0, wide("y")), binary_record(12, bytes(4)), binary_record(13, rk)],
            3: [binary_cell(6, 0, wide("z")), binary_record(13, rk), binary_record(12, bytes(4))],
            4: [binary_cell(1, 0, b""), binary_record(12, bytes(4))],
        }
        assert lines(binary_workbook(rows), "a.xlsb")[1:] == [
            "Name: x; Beta: 5",
            "Name: y; Beta: 5",
            "Name: z; Alpha: 5",
        ]

    def test_text_boxes(self):
        shape = "<x:sp><x:txBody><a:p><a:r><a:t>Beside</a:t></a:r></a:p></x:txBody></x:sp>"
        data = binary_workbook(
            {},
            relations=f'<Relationship Id="d" Type="{OFFICE}/drawing" Target="/xl/d.xml"/>',
            parts={"xl/d.xml": f"<x:wsDr xmlns:x='urn:x' {OFFICE_NAMES}>{shape}</x:wsDr>"},
        )
        assert lines(data, "a.xlsb") == ["Sheet S", "Beside"]


class TestOldWord:
    @pytest.mark.parametrize(
        ("shown", "missing"),
        [
            ("Head\nRome  lies here.\n\nFoot 1\nFoot 1\n", ["Head", "Foot 1"]),
            ("City\tUnits\nRome\t5\n\nlies", []),
            ("***\n1\n", ["1"]),
        ],
    )
    def test_what_the_structure_lacks_of_the_text_is_added(self, shown, missing):
        blocks = [Block("Rome lies here."), Block("City: Rome; Units: 5")]
        assert [block.text for block in _missing(shown, blocks)] == missing

    def test_embedded_objects_and_numbers_of_lists_are_told(self):
        picture = {"type": "image", "alt_text": "Embedded Microsoft Excel chart"}
        elements = [
            picture,
            {"type": "list", "items": [{"content": [picture]}]},
            {"type": "image", "alt_text": "A map"},
        ]
        assert [block.text for block in _blocks(elements)] == ["Picture: A map"]
        counts = [_count([{"elements": elements}], kind) for kind in (_is_embedded, _is_list)]
        assert _notes(embedded=counts[0], lists=counts[1]) == {
            "skipped_parts": 3,
            "skipped": "Embedded objects that are not read: 2.\nLists whose automatic numbers or bullets are not read: 1.",
        }
        assert _notes(embedded=0) == {}

    def test_paragraphs(self):
        assert lines(old_word("Of cities\rRome lies on the Tiber – and Köln does not.\r"), "a.doc") == [
            "Of cities",
            "Rome lies on the Tiber – and Köln does not.",
        ]

    @pytest.mark.parametrize("uri", ["a.doc", "a.ppt", "a.xls", "a.xlsb"])
    @pytest.mark.parametrize("data", [bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), b"PK\x03\x04 no"])
    def test_damaged_is_refused(self, uri, data):
        with pytest.raises(DocumentError, match=r"damaged|no Excel"):
            read(data, uri)

    @pytest.mark.parametrize("uri", ["a.doc", "a.ppt", "a.xls", "a.xlsb", "a.odt", "a.rtf"])
    def test_text_under_another_name_is_read_as_the_text_that_it_is(self, uri):
        assert lines(b"plain text", uri) == ["plain text"]

    def test_missing_library_is_named(self, monkeypatch):
        monkeypatch.setattr("ingest.readers.legacy_office.Document", None)
        with pytest.raises(DocumentError, match=r"pip install 'gircse-search\[office\]'"):
            read(old_word("x"), "a.doc")


def test_ids_that_stand_twice_are_no_damage():
    data = open_document("text", '<text:p xml:id="a">One</text:p><text:p xml:id="a">Two</text:p>')
    assert lines(data, "a.odt") == ["One", "Two"]
