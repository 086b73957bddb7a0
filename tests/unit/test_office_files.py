"""Nothing that a person can see in a Word file or on a slide is lost."""

from __future__ import annotations

import io

import pptx
import pytest
from office_files import (
    CHART,
    DIAGRAM,
    NAMES,
    OFFICE,
    cell,
    drawing,
    paragraph,
    run,
    series,
    shape,
    show,
    table,
    text_box,
    word,
)
from sample_files import unzipped, with_part, word_file, zip_of
from scan_samples import picture_samples

from app.types.texts import ExtractedText
from ingest.readers.document import read_document
from ingest.readers.limits import ReadLimits
from ingest.readers.office import read_docx

BOLD_HEADER = '<w:headerReference w:type="{}" r:id="{}"/>'


def read(data: bytes, uri: str = "a.docx") -> ExtractedText:
    return read_document(data, uri=uri)


def lines(data: bytes, uri: str = "a.docx") -> list[str]:
    return read(data, uri).text.split("\n\n")


class TestTextBoxes:
    def test_both_forms_of_one_box_are_said_once(self):
        inner = paragraph("Prime the pump.") + paragraph("Then start it.")
        body = (
            f"<w:p>{run('Before ')}<w:r><mc:AlternateContent><mc:Choice Requires='wps'>{drawing(text_box(inner))}"
            f"</mc:Choice><mc:Fallback><w:pict><v:textbox><w:txbxContent>{inner}</w:txbxContent></v:textbox></w:pict>"
            f"</mc:Fallback></mc:AlternateContent></w:r>{run('after')}</w:p>"
        )
        assert lines(word(body)) == ["Before after", "Prime the pump.", "Then start it."]

    def test_old_form(self):
        box = f"<w:pict><v:shape><v:textbox><w:txbxContent>{paragraph('Old box')}</w:txbxContent></v:textbox></v:shape></w:pict>"
        assert lines(word(f"<w:p><w:r>{box}</w:r></w:p>")) == ["Old box"]

    def test_in_a_cell_and_in_a_group(self):
        boxed = f"<w:tc><w:p>{run('text ')}{drawing(text_box(paragraph('beside')))}</w:p></w:tc>"
        group = drawing(f"<g>{text_box(paragraph('One'))}{text_box(paragraph('Two'))}</g>")
        body = table(cell("Part") + cell("Note"), cell("Valve") + boxed) + f"<w:p>{group}</w:p>"
        assert lines(word(body)) == ["Part: Valve; Note: text beside", "One", "Two"]

    def test_text_drawn_along_a_line(self):
        assert lines(word('<w:p><w:r><w:pict><v:textpath string="DRAFT"/></w:pict></w:r></w:p>')) == ["DRAFT"]


class TestTrackedChanges:
    def test_as_if_accepted(self):
        body = (
            f'<w:p>{run("Keep ")}<w:ins w:id="1">{run("new ")}</w:ins><w:del w:id="2"><w:r><w:delText>old</w:delText></w:r>'
            f'</w:del><w:moveFrom w:id="3">{run("away")}</w:moveFrom><w:moveTo w:id="4">{run("here")}</w:moveTo></w:p>'
            f'<w:ins w:id="5">{paragraph("A whole paragraph.")}</w:ins>'
        )
        assert lines(word(body)) == ["Keep new here", "A whole paragraph."]

    def test_rows(self):
        deleted = f"<w:trPr><w:del w:id='1'/></w:trPr>{cell('gone')}{cell('gone')}"
        added = f"<w:trPr><w:ins w:id='2'/></w:trPr>{cell('Rome')}{cell('Italy')}"
        assert lines(word(table(cell("City") + cell("Country"), added, deleted))) == ["City: Rome; Country: Italy"]

    def test_control_within_an_insertion(self):
        body = f"<w:p><w:ins w:id='1'><w:sdt><w:sdtContent>{run('chosen')}</w:sdtContent></w:sdt></w:ins></w:p>"
        assert lines(word(body)) == ["chosen"]


class TestControlsAndFields:
    def test_controls_of_every_kind(self):
        def control(inner: str) -> str:
            return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>"

        row = control(f"<w:tr>{cell('Rome')}{control(cell('Italy'))}</w:tr>")
        body = (
            control(paragraph("Block") + control(paragraph("Inner")))
            + f"<w:p>{run('Choose ')}{control(run('this'))}</w:p>"
            + f"<w:tbl><w:tr>{cell('City')}{cell('Country')}</w:tr>{row}</w:tbl>"
        )
        assert lines(word(body)) == ["Block", "Inner", "Choose this", "City: Rome; Country: Italy"]

    def test_results_of_fields_without_their_instructions(self):
        def field(instruction: str, result: str) -> str:
            mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
            return (
                mark.format("begin")
                + f"<w:r><w:instrText>{instruction}</w:instrText></w:r>"
                + mark.format("separate")
                + run(result)
                + mark.format("end")
            )

        nested = f'<w:r><w:fldChar w:fldCharType="begin"/></w:r>{field("X", "hidden")}<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        body = (
            f"<w:p>{run('See ')}{field('REF secret', 'Section 2')}{run(' of ')}"
            f"<w:fldSimple w:instr='DATE'>{run('May 2024')}</w:fldSimple></w:p>"
            f'<w:p>{nested}{run("outer")}<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
        )
        assert lines(word(body)) == ["See Section 2 of May 2024", "outer"]

    @pytest.mark.parametrize(
        ("instruction", "shown"),
        [
            (" MACROBUTTON  NoMacro [Click here and type a name] ", "[Click here and type a name]"),
            ("GOTOBUTTON mark See there", "See there"),
            (r" EQ \f(apples;pears) ", "apples pears"),
            (r" SYMBOL 169 ", "©"),
            (r' SYMBOL 0x61 \f "Symbol" \s 12 ', "α"),
            (r" SYMBOL 254 \f Wingdings ", "☑"),
            (" XE index ", ""),
            ("SYMBOL 9999999 ", ""),
            ("", ""),
        ],
    )
    def test_fields_without_results_show_what_their_instructions_say(self, instruction, shown):
        mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
        parts = "".join(f"<w:r><w:instrText>{part}</w:instrText></w:r>" for part in (instruction[:4], instruction[4:]))
        field = mark.format("begin") + parts + mark.format("end")
        assert lines(word(f"<w:p>{run('a ')}{field}{run(' z')}</w:p>")) == [f"a {shown} z"]
        outer = mark.format("begin") + field + mark.format("separate") + run("result") + mark.format("end")
        assert lines(word(f"<w:p>{outer}</w:p>")) == ["result"]

    def test_large_first_letters_stand_in_their_word(self):
        letter = '<w:pPr><w:framePr w:dropCap="drop" w:lines="3"/></w:pPr>'
        text = paragraph("O", letter) + paragraph("nce upon a time") + "<w:p/>" + paragraph("A", letter)
        assert lines(word(text + "<w:p/>" + paragraph("I", letter) + table(cell("x")))) == [
            *("Once upon a time", "A", "I", "x")
        ]

    @pytest.mark.parametrize("change", ["del", "moveFrom"])
    def test_paragraphs_whose_end_was_deleted_are_one_with_the_next(self, change):
        gone = f'<w:pPr><w:rPr><w:{change} w:id="1" w:author="Ann"/></w:rPr></w:pPr>'
        mark = '<w:bookmarkStart w:id="2" w:name="m"/>'
        text = paragraph("One", gone) + mark + paragraph(" and", gone) + paragraph(" two.") + paragraph("Three.", gone)
        assert lines(word(text + table(cell("x")))) == ["One and two.", "Three.", "x"]

    def test_fields_of_forms(self):
        choice = '<w:ddList><w:result w:val="1"/><w:listEntry w:val="tea"/><w:listEntry w:val="coffee"/></w:ddList>'
        box = '<w:checkBox><w:default w:val="1"/></w:checkBox>'
        marks = "".join(
            f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'
            '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
            for data in (choice, box)
        )
        assert lines(word(f"<w:p>{run('Drink: ')}{marks}</w:p>")) == ["Drink: coffee☒"]

    def test_signs_and_readings(self):
        ruby = f"<w:r><w:ruby><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r>"
        body = (
            f"<w:p>{run('non')}<w:r><w:noBreakHyphen/></w:r>{run('stick')}<w:r><w:tab/></w:r>{run('a')}<w:r><w:br/></w:r>"
            f'<w:r><w:sym w:font="Symbol" w:char="F062"/></w:r><w:r><w:rPr><w:vanish/></w:rPr><w:t>unseen</w:t></w:r></w:p>'
            f"<w:p>{ruby}{run('に行く')}</w:p>"
        )
        assert lines(word(body)) == ["non-stick\ta\nβ", "東京に行く", "とうきょう"]


class TestTables:
    def test_cells_over_columns_are_said_once_and_over_rows_in_each(self):
        rows = (
            cell("Region") + cell("Product") + cell("Units"),
            cell("East", '<w:vMerge w:val="restart"/>') + cell("Apples") + cell("1"),
            cell("", "<w:vMerge/>") + cell("Pears") + cell("2"),
            cell("Total", '<w:gridSpan w:val="2"/>') + cell("3"),
            '<w:trPr><w:gridBefore w:val="1"/></w:trPr>' + cell("Late") + cell("4"),
        )
        assert lines(word(table(*rows))) == [
            "Region: East; Product: Apples; Units: 1",
            "Region: East; Product: Pears; Units: 2",
            "Region: Total; Units: 3",
            "Product: Late; Units: 4",
        ]

    def test_table_in_a_cell(self):
        inner = (
            f"<w:tc>{paragraph('outer')}{table(cell('torque') + cell('bolt'), cell('12') + cell('M6'))}<w:p/></w:tc>"
        )
        assert lines(word(table(cell("Part") + cell("Details"), cell("Valve") + inner))) == [
            "Part: Valve; Details: outer torque: 12; bolt: M6"
        ]

    def test_two_rows_of_names_and_a_title(self):
        rows = (
            cell("Sales by year", '<w:gridSpan w:val="3"/>'),
            cell("Region", '<w:vMerge w:val="restart"/>') + cell("2023", '<w:gridSpan w:val="2"/>'),
            cell("", "<w:vMerge/>") + cell("Q1") + cell("Q2"),
            cell("East") + cell("5") + cell("6"),
        )
        assert lines(word(table(*rows))) == ["Sales by year", "Region: East; 2023 Q1: 5; 2023 Q2: 6"]

    def test_frame_around_text_is_text(self):
        assert lines(word(table(cell("First line."), cell("Second line.")))) == ["First line.", "Second line."]

    def test_names_of_empty_columns_are_kept(self):
        assert lines(word(table(cell("City") + cell("Motto"), cell("Rome") + cell("")))) == [
            "City: Rome",
            "No values: Motto",
        ]


class TestNotes:
    def test_where_they_are_referred_to(self):
        def notes(kind: str, *found: tuple[int, str]) -> tuple[str, str]:
            inner = "".join(f'<w:{kind} w:id="{n}" w:author="Ann">{paragraph(text)}</w:{kind}>' for n, text in found)
            return f"{kind}s", f"<w:{kind}s {NAMES}>{inner}</w:{kind}s>"

        in_cell = f'<w:tc><w:p>{run("Rome")}<w:r><w:footnoteReference w:id="3"/></w:r></w:p></w:tc>'
        body = (
            f'<w:p>{run("Claim")}<w:r><w:footnoteReference w:id="2"/></w:r>{run(" and more.")}'
            '<w:r><w:endnoteReference w:id="2"/></w:r></w:p>'
            + table(cell("City") + cell("Land"), in_cell + cell("Italy"))
            + f'<w:p>{run("Checked.")}<w:r><w:commentReference w:id="0"/></w:r></w:p>{paragraph("Last.")}'
        )
        parts = {
            "f": notes("footnote", (2, "See 1932."), (3, "The old town.")),
            "e": notes("endnote", (2, "In the appendix.")),
            "c": notes("comment", (0, "Is it?"), (1, "It is.")),
        }
        assert lines(word(body, parts)) == [
            "Claim and more.",
            "Footnote: See 1932.",
            "Endnote: In the appendix.",
            "City: Rome; Land: Italy",
            "Footnote: The old town.",
            "Checked.",
            "Comment by Ann: Is it?",
            "Last.",
            "Comment by Ann: It is.",
        ]

    def test_a_section_has_the_headers_of_the_one_before(self):
        def header(text: str) -> tuple[str, str]:
            return "header", f"<w:hdr {NAMES}>{paragraph(text)}</w:hdr>"

        references = BOLD_HEADER.format("default", "h1") + BOLD_HEADER.format("first", "h2")
        first = f"<w:p><w:pPr><w:sectPr>{references}</w:sectPr></w:pPr></w:p>"
        body = paragraph("One") + first + paragraph("Two") + "<w:sectPr><w:titlePg/></w:sectPr>"
        parts = {"h1": header("Head"), "h2": header("Cover of two")}
        assert lines(word(body, parts)) == ["Head", "One", "Cover of two", "Two"]

    def test_headers_and_footers_once_a_section(self):
        def margin(tag: str, text: str) -> tuple[str, str]:
            return {"hdr": "header", "ftr": "footer"}[tag], f"<w:{tag} {NAMES}>{paragraph(text)}</w:{tag}>"

        first = (
            f"<w:sectPr>{BOLD_HEADER.format('default', 'h1')}{BOLD_HEADER.format('first', 'h2')}"
            '<w:footerReference w:type="default" r:id="f1"/><w:titlePg/></w:sectPr>'
        )
        second = f"<w:sectPr>{BOLD_HEADER.format('default', 'h3')}{BOLD_HEADER.format('first', 'h4')}</w:sectPr>"
        body = paragraph("One") + f"<w:p><w:pPr>{first}</w:pPr></w:p>" + paragraph("Two") + second
        parts = {
            "h1": margin("hdr", "Head"),
            "h2": margin("hdr", "Cover"),
            "h3": margin("hdr", "Head of two"),
            "h4": margin("hdr", "Never shown"),
            "f1": margin("ftr", "Foot"),
        }
        assert lines(word(body, parts)) == ["Head", "Cover", "One", "Foot", "Head of two", "Two"]

    def test_damaged_part_is_named_and_the_rest_is_read(self):
        found = read(word(paragraph("Body."), {"f": ("footnotes", "<w:footnotes")}))
        assert found.text == "Body."
        assert found.metadata["skipped_parts"] == 1
        assert "word/f.xml" in str(found.metadata["skipped"])


def test_formulas_in_one_line():
    def r(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    formula = (
        f"<m:oMath>{r('x=')}<m:f><m:num>{r('a+b')}</m:num><m:den>{r('2')}</m:den></m:f><m:sSup><m:e>{r('c')}</m:e><m:sup>{r('2')}"
        f"</m:sup></m:sSup><m:rad><m:deg/><m:e>{r('y')}</m:e></m:rad><m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{r('i=1')}"
        f"</m:sub><m:sup>{r('n')}</m:sup><m:e>{r('z')}</m:e></m:nary></m:oMath>"
    )
    in_cell = f"<w:tc><w:p>{formula}</w:p></w:tc>"
    body = f"<w:p>{run('So ')}{formula}{run(' holds.')}</w:p><m:oMathPara>{formula}</m:oMathPara>" + table(
        cell("n") + cell("f"), cell("1") + in_cell
    )
    shown = "x=(a+b)/2c^2√(y)∑_(i=1)^n z"
    assert lines(word(body)) == [f"So {shown} holds.", shown, f"n: 1; f: {shown}"]


class TestNumbers:
    LEVELS = (
        '<w:abstractNum w:abstractNumId="{}"><w:lvl w:ilvl="0"><w:start w:val="{}"/><w:numFmt w:val="{}"/><w:lvlText w:val="{}"/>'
        '</w:lvl><w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum>'
    )

    def numbering(self) -> tuple[str, str]:
        kinds = [
            (0, 1, "decimal", "Article %1."),
            (1, 3, "upperRoman", "§ %1)"),
            (2, 1, "bullet", "•"),
            (3, 27, "lowerLetter", "%1)"),
        ]
        lists = "".join(f'<w:num w:numId="{n + 1}"><w:abstractNumId w:val="{n}"/></w:num>' for n in range(4))
        again = '<w:num w:numId="5"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="x"><w:startOverride w:val="9"/></w:lvlOverride><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num>'
        xml = "".join(self.LEVELS.format(*each) for each in kinds) + lists + again
        return "numbering", f"<w:numbering {NAMES}>{xml}</w:numbering>"

    def item(self, text: str, depth: int, number: int) -> str:
        return paragraph(
            text, f'<w:pPr><w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr></w:pPr>'
        )

    def test_as_they_are_shown(self):
        places = [
            ("a", 0, 1),
            ("b", 1, 1),
            ("c", 1, 1),
            ("d", 0, 1),
            ("e", 1, 1),
            ("f", 0, 2),
            ("g", 0, 2),
            ("h", 0, 3),
        ]
        body = "".join(self.item(*each) for each in [*places, ("i", 0, 4), ("j", 0, 5), ("k", 0, 5)])
        assert lines(word(body, {"n": self.numbering()})) == [
            *("Article 1. a", "1.1 b", "1.2 c", "Article 2. d", "2.1 e", "§ III) f", "§ IV) g", "h", "aa) i"),
            *("Article 7. j", "Article 8. k"),
        ]

    def test_in_cells_without_more_text(self):
        empty = f"<w:tc><w:tcPr/>{self.item('', 0, 1)}</w:tc>"
        body = table(cell("Row") + cell("Item"), empty + cell("Pump"), empty + cell("Valve")) + self.item("", 0, 1)
        assert lines(word(body, {"n": self.numbering()})) == [
            "Row: Article 1.; Item: Pump",
            "Row: Article 2.; Item: Valve",
        ]

    def test_starts_restarts_and_ordinals(self):
        def level(depth: int, form: str, text: str, more: str = "") -> str:
            shown = f'<w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/>'
            return f'<w:lvl w:ilvl="{depth}">{shown}</w:lvl>'

        start = '<w:start w:val="1"/>'
        levels = (
            level(0, "ordinal", "%1", '<w:start w:val="10"/>'),
            level(1, "decimal", "%2.", start),
            level(2, "decimal", "%3)", '<w:start w:val="1"/><w:lvlRestart w:val="0"/>'),
            level(3, "decimal", "(%4)", '<w:start w:val="1"/><w:lvlRestart w:val="1"/>'),
            level(4, "decimal", "[%5]"),  # without a start it is 0
        )
        abstract = f'<w:abstractNum w:abstractNumId="0">{"".join(levels)}</w:abstractNum>'
        one = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        part = "numbering", f"<w:numbering {NAMES}>{abstract}{one}</w:numbering>"
        depths = [0, 1, 2, 3, 4, 4, 1, 2, 3, 0, 1, 2, 3, *[0] * 12]
        body = "".join(self.item("" if at == 14 else "x", depth, 1) for at, depth in enumerate(depths))
        shown = [line.partition(" ")[0] for line in lines(word(body, {"n": part}))]
        assert shown[:13] == ["10th", "1.", "1)", "(1)", "[0]", "[1]", "2.", "2)", "(2)", "11th", "1.", "3)", "(1)"]
        assert shown[13:] == ["12th", *(f"{n}th" for n in range(14, 21)), "21st", "22nd", "23rd"]  # an empty 13th

    def test_of_headings_by_their_style(self):
        styles = (
            f'<w:styles {NAMES}><w:style w:type="paragraph" w:styleId="H"><w:name w:val="heading 1"/><w:pPr><w:numPr>'
            '<w:numId w:val="1"/></w:numPr></w:pPr></w:style><w:style w:type="paragraph" w:styleId="Own"><w:basedOn w:val="H"/>'
            "</w:style></w:styles>"
        )
        body = paragraph("One", '<w:pPr><w:pStyle w:val="H"/></w:pPr>') + paragraph(
            "Two", '<w:pPr><w:pStyle w:val="Own"/></w:pPr>'
        )
        found = read(word(body, {"n": self.numbering(), "s": ("styles", styles)}))
        assert found.text == "Article 1. One\n\nArticle 2. Two"
        assert [mark.level for mark in found.marks] == [1, 1]


def test_strict_files_are_read():
    body = paragraph("Strict.") + f'<w:p>{run("x")}<w:r><w:footnoteReference w:id="1"/></w:r></w:p>'
    notes = f'<w:footnotes {NAMES}><w:footnote w:id="1">{paragraph("Below.")}</w:footnote></w:footnotes>'
    assert lines(word(body, {"f": ("footnotes", notes)}, strict=True)) == ["Strict.", "x", "Footnote: Below."]


def test_charts_diagrams_and_pictures_in_word():
    body = (
        f"<w:p>{drawing(chr(60) + 'c:chart r:id=' + chr(34) + 'ch' + chr(34) + '/>')}</w:p>"
        f"<w:p>{drawing(chr(60) + 'dgm:relIds r:dm=' + chr(34) + 'dg' + chr(34) + '/>', description='The plan')}</w:p>"
    )
    parts = {
        "ch": ("chart", CHART.format(series("Apples", {"East": "5", "West": "6.5"}))),
        "dg": ("diagramData", DIAGRAM),
    }
    assert lines(word(body, parts)) == [
        *("Chart: Harvest", "in tonnes", "Category: East; Apples: 5", "Category: West; Apples: 6.5"),
        *("Picture: The plan", "Plan", "Build"),
    ]


class TestSlides:
    FRAME = "<p:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"

    def test_charts_of_several_series(self):
        two = series("Apples", {"East": "5", "West": "4.2999999999999998"}) + series("Pears", {"East": "7"})
        data = show(self.FRAME.format('<c:chart r:id="x1"/>'), {"x1": ("chart", "charts/c1.xml", CHART.format(two))})
        assert lines(data, "a.pptx") == [
            "Chart: Harvest",
            "in tonnes",
            "Category: East; Apples: 5; Pears: 7",
            "Category: West; Apples: 4.3",
        ]

    def test_smart_art(self):
        data = show(self.FRAME.format('<dgm:relIds r:dm="x1"/>'), {"x1": ("diagramData", "diagrams/d1.xml", DIAGRAM)})
        assert lines(data, "a.pptx") == ["Plan", "Build"]

    def test_alternate_content_is_said_once(self):
        data = show(
            f"<mc:AlternateContent><mc:Choice Requires='a14'>{shape('New form')}</mc:Choice>"
            f"<mc:Fallback>{shape('Old form')}</mc:Fallback></mc:AlternateContent>"
            f"<mc:AlternateContent><mc:Choice Requires='x'><p:sp/></mc:Choice><mc:Fallback>{shape('Only here')}</mc:Fallback>"
            "</mc:AlternateContent>"
        )
        assert lines(data, "a.pptx") == ["New form", "Only here"]

    def test_alternative_texts(self):
        picture = '<p:pic><p:nvPicPr><p:cNvPr id="3" name="n" descr="{}"/></p:nvPicPr></p:pic>'
        data = show(
            picture.format("A bridge at night") + picture.format("image1.png") + shape("Text", description="Told")
        )
        assert lines(data, "a.pptx") == ["Picture: A bridge at night", "Picture: Told", "Text"]

    def test_numbered_paragraphs(self):
        items = "".join(
            f'<a:p><a:pPr><a:buAutoNum type="{form}"/></a:pPr><a:r><a:t>{text}</a:t></a:r></a:p>'
            for form, text in [("arabicPeriod", "one"), ("arabicPeriod", "two"), ("romanLcParenBoth", "three")]
        )
        data = show(f"<p:sp><p:txBody>{items}</p:txBody></p:sp>")
        assert lines(data, "a.pptx") == ["1. one\n2. two\n(i) three"]

    def test_merged_cells_and_groups(self):
        def tc(text: str, attributes: str = "") -> str:
            return f"<a:tc {attributes}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"

        rows = (
            tc("Region") + tc("Units"),
            tc("East", 'rowSpan="2"') + tc("5"),
            tc("", 'vMerge="1"') + tc("6"),
            tc("All", 'gridSpan="2"') + tc("", 'hMerge="1"'),
        )
        grid = "".join(f"<a:tr>{row}</a:tr>" for row in rows)
        data = show(f"<p:grpSp>{shape('In a group')}</p:grpSp>" + self.FRAME.format(f"<a:tbl>{grid}</a:tbl>"))
        assert lines(data, "a.pptx") == [
            *("In a group", "Region: East; Units: 5", "Region: East; Units: 6", "Region: All"),
        ]

    def test_slide_of_a_picture_is_named(self):
        deck = pptx.Presentation()
        for text in ("Title", ""):
            slide = deck.slides.add_slide(deck.slide_layouts[5 if text else 6])
            if text:
                slide.shapes.title.text = text
            else:
                slide.shapes.add_picture(io.BytesIO(picture_samples()["a.png"]), 0, 0)._element.nvPicPr.cNvPr.set(
                    "descr", ""
                )
        buffer = io.BytesIO()
        deck.save(buffer)
        assert read(buffer.getvalue(), "a.pptx").metadata["unread_pages"] == "2"


@pytest.mark.parametrize("suffix", [".docm", ".dotx", ".dotm"])
def test_files_with_macros_and_templates_are_read(suffix):
    assert "Before the heading." in read(word_file(), f"a{suffix}").text


def test_embedded_file_is_named():
    found = read(
        word(
            paragraph("See below.")
            + '<w:p><w:r><w:object><o:OLEObject xmlns:o="o" ProgID="Excel.Sheet.12"/></w:object></w:r></w:p>'
        )
    )
    assert found.metadata["skipped_parts"] == 1
    assert "Excel.Sheet.12" in str(found.metadata["skipped"])


MIME = "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b"
PAGE = "<p>Insertedmark</p><table><tr><th>City<th>Land<tr><td>Rome<td>Italy</table>"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.html", PAGE),
        ("a.mht", f"{MIME}\n\n--b\nContent-Type: text/html\n\n{PAGE}\n--b--"),
        ("a.rtf", r"{\rtf1 Insertedmark\par City: Rome; Land: Italy\par}"),
        ("a.txt", "Insertedmark\n\nCity: Rome; Land: Italy"),
    ],
)
def test_inserted_files_are_read_at_their_place(name, data):
    files = unzipped(word(paragraph("Before") + '<w:altChunk r:id="alt"/>' + paragraph("After")))
    link = f'<Relationship Id="alt" Type="{OFFICE}/aFChunk" Target="{name}"/></Relationships>'
    rels = "word/_rels/document.xml.rels"
    files |= {rels: files[rels].replace(b"</Relationships>", link.encode()), f"word/{name}": data.encode()}
    found = read(zip_of(files))
    assert found.text.split("\n\n") == ["Before", "Insertedmark", "City: Rome; Land: Italy", "After"]
    assert "skipped" not in found.metadata
    found = read(zip_of(files | {f"word/{name}": b"", rels: files[rels]}))
    assert found.text.split("\n\n") == ["Before", "After"]
    assert found.metadata["skipped_parts"] == 1


def test_repeated_inserted_files_do_not_fill_the_memory():
    """A small document can show a file very often. Its text counts each time, and no file is parsed twice."""
    files = unzipped(word('<w:altChunk r:id="a"/>' * 100 + '<w:altChunk r:id="b"/>'))
    links = "".join(f'<Relationship Id="{name}" Type="{OFFICE}/aFChunk" Target="{name}.txt"/>' for name in "ab")
    rels = "word/_rels/document.xml.rels"
    files |= {rels: files[rels].replace(b"</Relationships>", f"{links}</Relationships>".encode())}
    files |= {f"word/{name}.txt": b"" for name in "ab"}
    parsed = []

    def read_member(data, *, uri, **options):
        parsed.append(uri)
        return ExtractedText("cat " * 25, "", "text/plain")

    found = read_docx(zip_of(files), ReadLimits(max_characters=5_000), read_member)
    assert 1_000 < len(found.text) <= 5_000
    shown = found.text.count("cat ") // 25 + 1  # the last space is cut off
    assert found.metadata["skipped_parts"] == 101 - shown
    assert parsed == ["word/a.txt"]  # nothing is left for the other


def test_part_of_another_encoding():
    data = with_part(
        word_file(), "word/document.xml", lambda xml: xml.decode().replace("UTF-8", "UTF-16", 1).encode("utf-16")
    )
    assert "Before the heading." in read(data).text


@pytest.mark.parametrize(
    ("font", "code", "shown"),
    [
        *[("Wingdings", code, "☑") for code in ("F0FE", "00FE")],
        *[("Wingdings", "F0A8", "☐"), ("Wingdings 2", "F052", "☑"), ("Wingdings", "F04A", ""), ("Symbol", "F061", "α")],
    ],
)
def test_signs_of_symbol_fonts(font, code, shown):
    sign = f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'
    assert read(word(f"<w:p>{sign}{run(' agreed')}</w:p>")).text == f"{shown} agreed".strip()


def test_comments_of_slides_name_their_authors():
    comments = f'<p:cmLst {NAMES}><p:cm authorId="0"><p:text>Sure?</p:text></p:cm><p:cm authorId="9"><p:text>Yes</p:text></p:cm></p:cmLst>'
    files = unzipped(show(shape("Seen"), {"k": ("comments", "comments/comment1.xml", comments)}))
    files["ppt/commentAuthors.xml"] = f'<p:cmAuthorLst {NAMES}><p:cmAuthor id="0" name="Ada"/></p:cmAuthorLst>'.encode()
    link = f'<Relationship Id="a" Type="{OFFICE}/commentAuthors" Target="commentAuthors.xml"/></Relationships>'
    relations = "ppt/_rels/presentation.xml.rels"
    files[relations] = files[relations].replace(b"</Relationships>", link.encode())
    assert lines(zip_of(files), "a.pptx") == ["Seen", "Comment by Ada: Sure?", "Comment: Yes"]
