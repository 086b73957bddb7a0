"""Losses of text that users of other document readers reported, by format: what a person sees stands in the text."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from office_files import NAMES, run, show, word
from other_office_samples import open_document, p
from sample_files import book, unzipped, workbook, zip_of

from app.errors import DocumentError
from ingest.readers.document import read_document
from ingest.readers.office_xml import _rows
from ingest.readers.text import as_printed, clean_pieces


def text_of(data: str | bytes, name: str) -> str:
    return read_document(data.encode() if isinstance(data, str) else data, uri=f"file:///{name}").text


TIMES = "00:00:{0:02},000 --> 00:00:{0:02},900"


class TestSubtitles:
    @pytest.mark.parametrize(
        ("cues", "shown"),
        [
            (f"1\n{TIMES.format(1)}\n\nSaid late.\n\n2\n{TIMES.format(2)}\nNext.", "Said late.\n\nNext."),
            (
                f"1\n{TIMES.format(1)}\nThe fleet\n\nis beaten.\n\n2\n{TIMES.format(2)}\nNext.",
                "The fleet is beaten.\n\nNext.",
            ),
            (
                f"1\n{TIMES.format(1)}\nOne.\n2\n{TIMES.format(2)}\nTwo.\n3\n{TIMES.format(3)}\nThree.",
                "One.\n\nTwo.\n\nThree.",
            ),
            ("1\n00:00:01 --> 00:00:02\nWhole seconds.", "Whole seconds."),
            ("1\n00:00:01:000 -> 00:00:02:000\nOther signs.", "Other signs."),
            (
                f"1\n{TIMES.format(1)}\nThe answer is\n12\n{TIMES.format(2)}\n12\n{TIMES.format(3)}\nTwo.",
                "The answer is 12\n12\nTwo.",
            ),
            (
                f"1\n{TIMES.format(1)}\n10:30 -> 11:45\nis late.\n\n7\n{TIMES.format(2)}\n8",
                "10:30 -> 11:45 is late.\n\n8",
            ),
            (f"Translated by Ann.\n\n1\n{TIMES.format(1)}\nOne.", "Translated by Ann.\n\nOne."),
        ],
    )
    def test_cues_of_subrip(self, cues: str, shown: str):
        assert text_of(cues, "a.srt") == shown

    def test_names_and_notes_of_webvtt_are_not_spoken(self):
        head = "WEBVTT\nKind: captions\n\nSTYLE\n::cue { color: red }\n\n"
        first = f"opening\n{TIMES.format(1)}\nNOTES are sung.\n\nto the end.\n\nNOTE a remark\n\n"
        cues = f"{first}cue two\n{TIMES.format(2)}\nTwo."
        assert text_of(head + cues.replace(",", "."), "a.vtt") == "NOTES are sung. to the end.\n\nTwo."

    @pytest.mark.parametrize("said", ["STYLE is everything", "NOTE this", "REGION"])
    def test_spoken_words_that_look_like_the_begin_of_a_note(self, said: str):
        assert text_of(f"WEBVTT\n\n00:01.000 --> 00:02.000\n{said}\n\nNOTE a remark\n", "a.vtt") == said


def notebook(*outputs: dict[str, Any]) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": "x", "outputs": outputs}]})


MATPLOTLIB = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg"><metadata><rdf:RDF xmlns:dc="http://purl.org/dc/elements/1.1/"
xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><dc:date>2020-09-01T10:00:00</dc:date><dc:title>Matplotlib
</dc:title></rdf:RDF></metadata><style>*{}</style><title>A title</title><text>x <tspan>&amp; y</tspan></text></svg>"""


class TestResultsOfNotebooks:
    @pytest.mark.parametrize(
        ("data", "shown"),
        [
            ({"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>Seen</b> page"}, "Seen page"),
            ({"text/plain": "<IPython.core.display.Latex object>", "text/latex": "$$E=mc^2$$"}, "$$E=mc^2$$"),
            (
                {"text/plain": "<IPython.core.display.SVG object>", "image/svg+xml": "<svg><text>Seen</text></svg>"},
                "Seen",
            ),
            ({"text/plain": "<Figure>", "image/svg+xml": MATPLOTLIB}, "A title\nx & y"),
            ({"text/plain": "<Figure>", "image/svg+xml": "<svg><path/>"}, "<Figure>"),
            (
                {"text/plain": "<IPython.core.display.JSON object>", "application/json": {"key": "ä"}},
                '{\n "key": "ä"\n}',
            ),
            ({"text/plain": "<IPython.core.display.Image object>", "image/png": "x"}, ""),
            ({"text/plain": "Figure(1)", "text/html": "<script>draw()</script>"}, "Figure(1)"),
            ({"text/plain": "an <IPython.core.display.HTML object>"}, "an <IPython.core.display.HTML object>"),
        ],
    )
    def test_the_richest_form_is_read(self, data: dict[str, object], shown: str):
        found = text_of(notebook({"output_type": "display_data", "data": data}), "a.ipynb")
        assert found == f"x\n\n{shown}".strip()

    def test_an_error_with_the_lines_that_led_to_it(self):
        error = {"output_type": "error", "ename": "ValueError", "evalue": "bad"}
        lines = ["\x1b[0;31min compute()\x1b[0m", "ValueError: bad"]
        assert text_of(notebook(error | {"traceback": lines}), "a.ipynb") == "x\n\nin compute()\nValueError: bad"
        assert text_of(notebook(error | {"traceback": ["in f()"]}), "a.ipynb") == "x\n\nin f()\nValueError: bad"


class TestTerminals:
    @pytest.mark.parametrize(
        ("written", "shown"),
        [
            ("\x1b[32mINFO\x1b[0m started", "INFO started"),
            ("\x1b]8;;https://example.org\x07link\x1b]8;;\x07", "link"),
            ("\x1b(B\x1b[mplain \x1b[38;5;12mblue", "plain blue"),
            ("N\bNA\bA _\bl_\bs N\bN\bN _\bb\bb o\b_", "NA ls N b o"),
            ("ab\b\bc a\bword", "abc aword"),
            ("The end.\r\n\x1a", "The end.\n"),
            ("\x1b\x1b[0m[0mx", "[0mx"),
        ],
    )
    def test_what_a_terminal_shows_in_one_piece_and_in_many(self, written: str, shown: str):
        before = "A line that a program printed before.\n"
        assert text_of(before + written, "a.log") == before + shown
        assert "".join(clean_pieces(as_printed(list(written)))) == shown
        assert "".join(as_printed([shown])) == shown

    def test_a_value_that_has_a_backspace_keeps_its_letters(self):
        assert text_of('{"pattern": "(?i)\\bword\\b"}', "a.json") == "pattern: (?i)\bword\b"


def changed_book(old: bytes, new: bytes, *, package: bool = True) -> bytes:
    """A book of two chapters with a change in its package or in the names of its files."""
    files = unzipped(book("<p>One.</p>", "<p>Two.</p>"))
    if package:
        files["OPS/package.opf"] = files["OPS/package.opf"].replace(old, new)
        return zip_of(files)
    return zip_of({name.replace(old.decode(), new.decode()): data for name, data in files.items()})


class TestBooks:
    @pytest.mark.parametrize(
        "data",
        [
            changed_book(b"application/xhtml+xml", b"text/x-oeb1-document"),
            changed_book(b"application/xhtml+xml", b"application/octet-stream"),
            changed_book(b"c%201.xhtml", b"c%201.xhtml#begin"),
            changed_book(b"text/c%20", b"Text/C%20"),
            changed_book(b"c 1", b"c%201", package=False),
            changed_book(b'<itemref idref="c0"/><itemref idref="c1"/>', b""),
        ],
        ids=["old type", "no type", "fragment", "case", "percent", "no spine"],
    )
    def test_chapters_are_found_however_the_package_names_them(self, data: bytes):
        assert read_document(data, uri="a.epub").text == "One.\n\nTwo."

    def test_a_page_that_is_a_drawing(self):
        data = changed_book(b"c%201.xhtml", b"c.svg")
        drawing = '<svg xmlns="http://www.w3.org/2000/svg"><text>Drawn.</text></svg>'
        assert text_of(zip_of(unzipped(data) | {"OPS/text/c.svg": drawing.encode()}), "a.epub") == "One.\n\nDrawn."

    @pytest.mark.parametrize(
        ("data", "place"),
        [
            (changed_book(b"c%201.xhtml", b"gone.xhtml"), "text/gone.xhtml: It is missing"),
            (changed_book(b'idref="c1"', b'idref="nowhere"'), "spine, nowhere: "),
        ],
    )
    def test_a_missing_chapter_is_noted(self, data: bytes, place: str):
        found = read_document(data, uri="a.epub")
        assert (found.text, found.metadata["skipped_parts"]) == ("One.", 1)
        assert str(found.metadata["skipped"]).startswith(place)

    def test_a_damaged_chapter_costs_no_other(self):
        data = bytearray(book("<p>One.</p>", "<p>Two.</p>"))
        begin = data.index(b"OPS/text/c 1.xhtml") + len("OPS/text/c 1.xhtml")
        data[begin : begin + 20] = bytes(20)
        found = read_document(bytes(data), uri="a.epub")
        assert (found.text, found.metadata["skipped_parts"]) == ("One.", 1)
        assert "c 1.xhtml: This EPUB is damaged" in str(found.metadata["skipped"])

    def test_a_book_without_any_chapter_is_refused(self):
        with pytest.raises(DocumentError, match="None of the chapters"):
            read_document(changed_book(b"c%20", b"x%20"), uri="a.epub")

    def test_notes_that_show_when_pressed(self):
        assert text_of(book('<p>One.</p><aside epub:type="footnote" hidden="">A note.</aside>'), "a.epub").endswith(
            "A note."
        )


def mail(body: str, kind: str = "text/plain", more: str = "") -> str:
    head = "From: ann@example.org\nTo: bob@example.org\nSubject: Of cities\n"
    return f"{head}MIME-Version: 1.0\nContent-Type: {kind}\n{more}\n{body}"


def multipart(kind: str, *parts: str) -> str:
    return mail("".join(f"--b\n{part}\n" for part in parts) + "--b--\n", f'multipart/{kind}; boundary="b"')


def base64_of(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


ENCODED = "Content-Transfer-Encoding: base64\n"
SAID = "The meeting takes place on Tuesday in the large hall, and everybody is welcome to ask about the budget."


class TestMessages:
    def test_the_page_of_a_message_counts_where_its_plain_text_says_less(self):
        page = f"Content-Type: text/html\n\n<p>{SAID}</p><table><tr><td>Fee</td><td>4711 euros</td></tr></table>"
        found = text_of(
            multipart("alternative", f"Content-Type: text/plain\n\n{SAID} https://example.org/x/y", page), "a.eml"
        )
        assert "4711 euros" in found
        assert found.count("large hall") == 1

    def test_plain_text_counts_where_the_page_says_no_more(self):
        plain = "Content-Type: text/plain\n\n> May I?\n\nPlease reset it here: https://example.org/reset/abc123"
        page = "Content-Type: text/html\n\n<p>May I?</p><p>Please <a href='/reset/abc123'>reset it here</a>:"
        found = text_of(multipart("alternative", plain, page), "a.eml")
        assert found.endswith("> May I?\n\nPlease reset it here: https://example.org/reset/abc123")

    def test_a_short_answer_in_two_forms(self):
        parts = "Content-Type: text/plain\n\nOK", "Content-Type: text/html\n\n<p>OK"
        assert text_of(multipart("alternative", *parts), "a.eml").count("OK") == 1

    def test_a_forwarded_message_that_is_encoded(self):
        inner = mail("Gr=C3=BC=C3=9Fe from K", more="Content-Transfer-Encoding: quoted-printable\n")
        for coded in (f"{ENCODED}\n{base64_of(inner)}", f"\n{inner}"):
            part = f"Content-Type: message/rfc822\n{coded}"
            assert "Grüße from K" in text_of(multipart("mixed", part), "a.eml")

    def test_a_file_written_into_the_body(self):
        line = binascii.b2a_uu(b"City,People\nRome,2800000\n").decode()
        found = text_of(mail(f"See below.\n\nbegin 644 cities.csv\n{line}`\nend\n\nRegards"), "a.eml")
        assert found.endswith("See below.\n\n\n\nRegards\n\n# cities.csv\n\nCity: Rome; People: 2800000")
        for prose in ("begin 644 words\nof prose\nend", "begin 644 notes.txt\nHELLO\nWORLD\nend"):
            assert text_of(mail(prose), "a.eml").endswith(prose)

    def test_lines_that_a_mailing_list_appends_to_an_encoded_body(self):
        footers = ("____\nTo leave the list: example.org", "\nRegards\nThe list -- x", "Regards\nThe list -- x")
        for body in ("The body.", "The body"):
            for footer in footers[: 2 if body == "The body." else 3]:
                found = text_of(mail(f"{base64_of(body)}{footer}\n", more=ENCODED), "a.eml")
                assert found.endswith(f"{body}\n{footer}")
        spaced = base64_of("The body.").replace("Ym9k", "\n\nYm9k")
        assert text_of(mail(f"{spaced}{' ' * 100_000}", more=ENCODED), "a.eml").endswith("The body.")

    def test_all_who_got_it(self):
        found = text_of("Bcc: carl@example.org\nReply-To: list@example.org\n" + mail("Body."), "a.eml")
        assert "Reply-To: list@example.org\nTo: bob@example.org\nBcc: carl@example.org" in found

    def test_messages_of_a_mailbox_without_lines_between_them(self):
        start = "From ann@example.org Mon Jan  1 10:00:00 2024\n"
        found = text_of(f"{start}{mail('From 10:00 on: we meet.')}\n{start}{mail('Later.')}", "a.mbox")
        assert found.count("# Message") == 2
        assert "From 10:00 on: we meet." in found


class TestPages:
    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            (
                '<ol start="5"><li>Five<li value="9">Nine<li><p>Ten</p><p>more</p></ol>',
                "5. Five\n\n9. Nine\n\n10. Ten\n\nmore",
            ),
            ('<ol type="a"><li>A<ol type="I"><li>One<li>Two</ol><li>B</ol>', "a. A\n\nI. One\n\nII. Two\n\nb. B"),
            ('<ol reversed type="A" start="28"><li>Last<li>First</ol>', "AB. Last\n\nAA. First"),
            ('<ol style="list-style: none"><li>Plain</ol><ul><li>Point</ul>', "Plain\n\nPoint"),
            ("<ol><li>1. Written<li><li>Third</ol>", "1. Written\n\n3. Third"),
            (
                "<nav><ol><li>Home<li>Cities</ol></nav><article>Text</article>" + "<p>More text.</p>" * 9,
                "Home\nCities\n\nText" + "\n\nMore text." * 9,
            ),
            ('<ol type="A"><li>All members pay<li>Boards decide</ol>', "A. All members pay\n\nB. Boards decide"),
            ("<ol><li>100 people<li>15 dogs<li>3) ants</ol>", "1. 100 people\n\n2. 15 dogs\n\n3) ants"),
            ('<pre><ol class="linenums"><li>x = 1</li><li>y = 2</li></ol></pre>', "x = 1\ny = 2"),
            ("<q>“hi”</q> and <q><b>«ho»</b></q>", "“hi” and «ho»"),
            ("<ruby><rb>東<rb>京<rt>とう<rt>きょう</ruby>", "東京\n\nとう きょう"),
            ("<ruby><rb>東<rt>とう<rb>京<rt>きょう</ruby>", "東京\n\nとう きょう"),
            ("He said <q>hello</q>.", "He said “hello”."),
            (
                "10<sup>6</sup> cells, 10<sup>-3</sup> m, note<sup>12</sup>, 1<sup>st</sup>, CO<sub>2</sub>",
                "10⁶ cells, 10⁻³ m, note¹², 1st, CO2",
            ),
            ("<p><ruby>漢<rp>(<rt>かん<rp>)</ruby><ruby>字<rt>じ</ruby>です", "漢字です\n\nかん じ"),
            ('<p>Before <iframe srcdoc="&lt;p&gt;Framed&lt;/p&gt;"></iframe> after', "Before\n\nFramed\n\nafter"),
            ('<iframe srcdoc="&lt;!-- --&gt;"></iframe>Text', "Text"),
            ('<my-card><template shadowrootmode="open"><p>Shown</template></my-card><template>Not</template>', "Shown"),
            ('Let <script type="math/tex">a^2</script> hold', "Let a^2 hold"),
            ('<span class="MathJax">a²</span><script type="math/tex">a^2</script>', "a²"),
            ('<div class="MathJax_Display">E=mc²</div><script type="math/tex; mode=display">E=mc^2</script>', "E=mc²"),
            ('<span class="mjx-chtml MathJax_CHTML">a²</span><script type="math/tex">a^2</script>', "a²"),
            ('<span class="MathJax_SVG"><svg></svg></span><script type="math/tex">a^2</script>', "a^2"),
            ('<span class="MathJax_Preview"></span><script type="math/tex">a^2</script>', "a^2"),
            (
                """<iframe srcdoc="<?xml version='1.0' encoding='utf-8'?><html><p>Grüße"></iframe>Text""",
                "Grüße\n\nText",
            ),
            (
                '<div style="visibility:hidden">No<p style="visibility:visible">Shown <b>too</b></p>'
                '<i style="display:none"><b style="visibility:visible">no</b></i></div>After',
                "Shown too\n\nAfter",
            ),
            ('<iframe style="display:none" srcdoc="<p>secret"></iframe>Text', "Text"),
            (
                'The <img src="a" alt="old harbour"> and <img src="b" alt="IMG_1.jpg"><img alt="">',
                "The old harbour and",
            ),
        ],
    )
    def test_what_a_browser_adds_to_the_text(self, body: str, shown: str):
        assert text_of(f"<!doctype html><body>{body}", "a.html").strip() == shown

    def test_texts_of_pictures_are_no_titles_and_no_repetitions(self):
        logo = '<h1><a href="/"><img alt="City of Example logo"></a></h1>'
        found = read_document(
            f"<!doctype html><title>How to renew a passport</title>{logo}<h2>Who may apply</h2>".encode(), uri="a.html"
        )
        assert (found.title, found.text) == ("How to renew a passport", "Who may apply")
        figure = '<figure><a><img alt="The old harbour"></a><figcaption>The old\nharbour</figcaption></figure>'
        pictures = f'{figure}<a><img alt="Home"> <b>Home</b></a><a><img alt="Map"></a>'
        assert text_of(f"<!doctype html>{pictures}", "a.html") == "The old harbour\n\nHome Map"

    @pytest.mark.parametrize(
        "stray", ["<tr>Stray<td>1<td>2</tr>", "<tr><form><td>Stray<td>2</form></tr>", "<tr><td>1</td>Stray<td>2</tr>"]
    )
    def test_text_beside_the_cells_of_a_table(self, stray: str):
        assert "Stray" in text_of(f"<!doctype html><table><tr><th>A<th>B</tr>{stray}</table>", "a.html")


class TestJson:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ('{"k": "first", "k": "second"}', "k: first, second"),
            ('{"k": {"a": "1st"}, "k": {"a": "2nd"}}', "k.a: 1st\n\nk.a: 2nd"),
            (
                '{"price": 1.10, "large": 1E400, "long": 12345678901234567890}',
                "price: 1.10; large: 1E400; long: 12345678901234567890",
            ),
            ('{"a": "one"}\n{"a": "two"}', "a: one\n\na: two"),
            ('// head\n{"a": "http://b//c", /* x */ "b": [1, 2,],}', "a: http://b//c; b: 1, 2"),
            (f'{{"n": {"7" * 5_000}}}', f"n: {'7' * 300}"),
        ],
    )
    def test_values_as_they_are_written(self, text: str, shown: str):
        assert text_of(text, "a.json").startswith(shown)

    @pytest.mark.parametrize("text", ['{"a": 1} more', "{'a': 1}", '{"a": 1,, "b": 2}', "", "/* only */"])
    def test_what_is_no_json_is_refused(self, text: str):
        with pytest.raises(DocumentError):
            text_of(text, "a.json")


class TestRtf:
    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            (
                r"Fruit: {\field{\*\fldinst {\*\formfield{\fftype2\ffres1{\*\ffl Apple}{\*\ffl Pear}}}}{\fldrslt }}",
                "Fruit: Pear",
            ),
            (
                r"Fruit: {\field{\*\fldinst {\*\formfield{\fftype2\ffres25\ffdefres0{\*\ffl Apple}}}}{\fldrslt }}",
                "Fruit: Apple",
            ),
            (
                r"{\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres1\ffdefres0}}}{\fldrslt }} agreed",
                "☒ agreed",
            ),
            (
                r"{\field{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres25\ffdefres0}}}{\fldrslt }} agreed",
                "☐ agreed",
            ),
            (
                r"{\field{\*\fldinst FORMTEXT {\*\formfield{\fftype0{\*\ffdeftext Name}}}}{\fldrslt Ada}} wrote",
                "Ada wrote",
            ),
            (
                r"{\field{\*\fldinst {\*\formfield{\fftype2\ffres1{\*\ffl Apple}{\*\ffl Pear}}}}{\fldrslt Pear}} tree",
                "Pear tree",
            ),
            (r"x\par{\shp{\*\shpinst{\sp{\sn gtextUNICODE}{\sv Draft}}}}\par", "x\n\nDraft"),
            (r"\fromhtml1 {\*\htmltag64 <p>}Shown\htmlrtf \par\htmlrtf0 {\*\htmltag72 </p>}", "Shown"),
            (r"m{\super 2}, 10\super -3\nosupersub  m, 2{\up6 nd}, CO{\sub 2}", "m², 10⁻³ m, 2nd, CO2"),
            (r"A\htmlrtf not shown\htmlrtf0  B", "A B"),
        ],
    )
    def test_form_fields_drawn_text_and_html(self, body: str, shown: str):
        assert text_of(r"{\rtf1\ansi " + body + "}", "a.rtf") == shown


class TestOfficeFiles:
    def test_shapes_within_a_paragraph_are_paragraphs(self):
        shapes = "".join(
            f"<draw:{kind}>{p(kind)}</draw:{kind}>" for kind in ("caption", "polyline", "circle", "measure")
        )
        found = read_document(open_document("text", f"<text:p>Before{shapes} after</text:p>"), uri="a.odt")
        assert found.text == "Before after\n\ncaption\n\npolyline\n\ncircle\n\nmeasure"

    def test_raised_digits_are_not_glued(self):
        high = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{}</w:t></w:r>'
        body = f"<w:p>{run('10')}{high.format('6')}{run(' cells of the 2')}{high.format('nd')}{run(' kind')}</w:p>"
        assert read_document(word(body), uri="a.docx").text == "10⁶ cells of the 2nd kind"
        runs = '<a:r><a:t>m</a:t></a:r><a:r><a:rPr baseline="{}"/><a:t>2</a:t></a:r>'
        slide = f"<p:sp><p:txBody><a:p>{runs}</a:p></p:txBody></p:sp>"
        assert read_document(show(slide.format(30_000)), uri="a.pptx").text == "m²"
        assert read_document(show(slide.format(-25_000)), uri="a.pptx").text == "m2"

    def test_characters_that_a_workbook_escapes(self):
        data = workbook({"S": [["City"], ["Rome_x000D_\nItaly _x005F_x000D_"]]})
        assert "Italy _x000D_" in read_document(data, uri="a.xlsx").text
        assert "Rome_x" not in read_document(data, uri="a.xlsx").text


EXCEL_2003 = """<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?>
<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet">
<Worksheet ss:Name="Cities"><Table><Row><Cell><Data ss:Type="String">Name</Data></Cell>
<Cell><Data ss:Type="String">People</Data></Cell><Cell><Data ss:Type="String">Seen</Data></Cell></Row>
<Row><Cell><Data ss:Type="String">Rome</Data></Cell>
<Cell ss:Index="3"><Data ss:Type="DateTime">2024-05-01T00:00:00.000</Data><Comment><Data>Twice</Data>
</Comment></Cell></Row></Table></Worksheet></Workbook>"""
RUNS = f"<w:p>{run('One')}{run('word')}</w:p>"
FLAT = """<?xml version="1.0"?><pkg:package xmlns:pkg="http://schemas.microsoft.com/office/2006/xmlPackage"><pkg:part
pkg:name="/word/document.xml" pkg:contentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document">
<pkg:xmlData>{}</pkg:xmlData></pkg:part></pkg:package>""".format(
    f"<w:document {NAMES}><w:body>{RUNS}</w:body></w:document>"
)
WORD_2003 = f"""<?xml version="1.0"?><w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml"><w:body>
<wx:sect xmlns:wx="urn:wx">{RUNS}</wx:sect></w:body></w:wordDocument>"""


PROPERTIES = """<o:DocumentProperties xmlns:o="urn:schemas-microsoft-com:office:office"><o:Title>Of cities</o:Title>
<o:Author>Ada</o:Author><o:Created>2004-05-06T07:08:00Z</o:Created><o:Pages>1</o:Pages></o:DocumentProperties>"""


class TestXml:
    @pytest.mark.parametrize(("data", "before"), [(WORD_2003, "<w:body>"), (EXCEL_2003, "<Worksheet")])
    def test_properties_of_office_2003(self, data: str, before: str):
        found = read_document(data.replace(before, PROPERTIES + before).encode(), uri="a.xml")
        assert found.title == "Of cities"
        assert (found.metadata["author"], found.metadata["created"]) == ("Ada", "2004-05-06")
        assert read_document(data.encode(), uri="a.xml").text == found.text

    def test_headers_and_footers_of_word_2003(self):
        margins = "".join(
            f'<w:{name} w:type="{use}"><w:p>{run(f"{use} {name}")}</w:p></w:{name}>'
            for name in ("hdr", "ftr")
            for use in ("odd", "first")
        )
        data = WORD_2003.replace("</wx:sect>", f"<w:sectPr>{margins}</w:sectPr></wx:sect>")
        assert text_of(data, "a.xml") == "odd hdr\n\nOneword\n\nodd ftr"
        data = data.replace("</w:sectPr>", "<w:titlePg/></w:sectPr>")
        assert text_of(data, "a.xml") == "odd hdr\n\nfirst hdr\n\nOneword\n\nodd ftr\n\nfirst ftr"

    def test_gaps_of_excel_2003_do_not_fill_the_memory(self):
        cells = "".join(f'<Cell ss:Index="{n * 9_000}" ss:MergeAcross="8000"/>' for n in range(1, 100))
        first = "<Row><Cell><Data>A</Data></Cell><Cell><Data>B</Data></Cell></Row>"
        rows = f'{first}<Row ss:Index="9000000">{cells}</Row>'
        root = fromstring(EXCEL_2003.replace("<Table>", f"<Table>{rows}"))
        found = list(_rows(root[0]))
        assert found[:2] == [["A", "B"], []]
        assert len(found[2]) == 1_000 + 99
        assert len(found) == 5

    @pytest.mark.parametrize("name", ["a.xml", "a.xls"])
    def test_a_workbook_of_excel_2003(self, name: str):
        shown = "Sheet Cities\n\nName: Rome; Seen: 2024-05-01 (Comment: Twice)"
        assert text_of(EXCEL_2003, name).startswith(shown)

    @pytest.mark.parametrize("data", [FLAT, WORD_2003])
    def test_a_word_document_in_one_file(self, data: str):
        assert text_of(data, "a.xml") == "Oneword"

    @pytest.mark.parametrize(
        ("declared", "shown"),
        [
            ('<!DOCTYPE a [<!ENTITY co "ACME Ltd"> <!ELEMENT a ANY>]>', "ACME Ltd"),
            ('<!-- a --><!DOCTYPE a PUBLIC "-//x" "http://x/y.dtd" [<!ENTITY co \'it\'>]>', "it"),
        ],
    )
    def test_entities_of_a_short_text(self, declared: str, shown: str):
        found = text_of(f'<?xml version="1.0"?>{declared}<a><b>&co;</b> Caf&eacute;&nbsp;&amp; &lt;b&gt;</a>', "a.xml")
        assert found == f"a: {shown} Café & <b>"

    @pytest.mark.parametrize(
        "declared",
        [
            '<!ENTITY co SYSTEM "file:///etc/passwd">',
            '<!ENTITY x "y"><!ENTITY co "&x;&x;">',
            '<!ENTITY % x "y"><!ENTITY co "y">',
            f'<!ENTITY co "{"x" * 300}">',
            '<!ENTITY co "<b>y</b>">',
        ],
    )
    def test_other_entities_are_refused(self, declared: str):
        with pytest.raises(DocumentError, match="entities"):
            text_of(f'<?xml version="1.0"?><!DOCTYPE a [{declared}]><a>&co;</a>', "a.xml")

    def test_short_entities_do_not_fill_the_memory(self):
        declared = f'<!DOCTYPE a [<!ENTITY co "{"x" * 200}">]>'
        with pytest.raises(DocumentError, match="entities"):
            text_of(f'<?xml version="1.0"?>{declared}<a>{"&co;" * 60_000}</a>', "a.xml")

    def test_pages_and_messages_under_names_of_office_files(self):
        page = "<table><tr><th>Name</th><th>City</th></tr><tr><td>Bob</td><td>Rome</td></tr></table>"
        assert text_of(page, "a.xls") == text_of(page, "a.doc") == "Name: Bob; City: Rome"
        assert text_of(page, "README") == page
        head = (
            'MIME-Version: 1.0\nContent-Type: text/html; charset="utf-8"\nContent-Transfer-Encoding: quoted-printable\n'
        )
        assert text_of(f"{head}\n<p>K=C3=B6ln</p>", "a.doc").strip() == "Köln"


POLISH = "Zażółć gęślą jaźń. Szczebrzeszyn z tego słynie, a Łódź płynie."
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. Nechť již hříšné saxofony rozezvučí síň."
HUNGARIAN = "Árvíztűrő tükörfúrógép. Öt hűtőházból kértünk színhúst."
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n"
UKRAINIAN = "Хай живе вільна Україна! Її діти їдуть додому, є ґанок.\n"
JAPANESE = "今日は良い天気ですね。公園に行きましょう。明日も晴れるでしょう。"
CHINESE = "今天天气很好，我们去公园散步。明天也会是晴天。"
KOREAN = "오늘은날씨가좋아서공원에갑니다.내일도맑을것입니다."
GERMAN = "Zwölf Boxkämpfer jagen Viktor über den großen Sylter Deich. Größe, Übung."
FRENCH = "Dès Noël où un zéphyr haï me vêt de glaçons, je dîne d'exquis rôtis."
ESTONIAN = "Põdur Zagrebi tšellomängija-följetonist Ciqo külmetas kehvas garaažis. Õhtu, sõber, mõte."
PORTUGUESE = "À noite, vovô Kowalsky vê o ímã cair no pé do pinguim queixoso e vovó põe açúcar no chá de tâmaras."


class TestEncodings:
    @pytest.mark.parametrize(
        ("text", "codec"),
        [
            *((text, "cp852") for text in (POLISH, CZECH)),
            *((text, "cp1250") for text in (POLISH, CZECH, HUNGARIAN)),
            *((text, "iso8859-2") for text in (POLISH, CZECH, HUNGARIAN)),
            *((text, codec) for text in (GERMAN, FRENCH) for codec in ("cp1252", "cp850", "mac_roman")),
            (PORTUGUESE, "cp1252"),
            ("Opiniões públicas: só já é possível, útil, país. ", "cp1252"),
            ("Az időeltolódás, előest és a főesemény: árvíz, kút, hűtő. ", "cp1250"),
            *((text, codec) for text in (RUSSIAN, CZECH) for codec in ("utf-16-le", "utf-16-be")),
        ],
    )
    def test_undeclared_encodings(self, text: str, codec: str):
        assert text_of((text * 3).encode(codec), "a.txt") == text * 3

    @pytest.mark.parametrize("codec", ["utf-8", "cp1251"])
    def test_stray_nuls_are_no_utf16(self, codec: str):
        data = (RUSSIAN * 3).encode(codec)
        assert text_of(data[:41] + b"\0" + data[41:], "a.txt").count("\n") == 3
        assert text_of(b"<html><p>Before\0NUL<p>After", "a.html") == "BeforeNUL\n\nAfter"

    @pytest.mark.parametrize("text", [RUSSIAN * 3, UKRAINIAN * 2])
    def test_cyrillic_of_old_macs(self, text: str):
        assert text_of(text.encode("mac-cyrillic"), "a.txt") == text

    @pytest.mark.parametrize("text", [JAPANESE, CHINESE, KOREAN, f"{JAPANESE}\n" * 4])
    @pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
    def test_east_asian_utf16_without_a_mark(self, text: str, codec: str):
        assert text_of(text.encode(codec), "a.txt") == text

    @pytest.mark.parametrize("codec", ["euc_jp", "cp932"])
    def test_other_japanese_is_no_utf16_and_no_damaged_utf8(self, codec: str):
        for text in (JAPANESE, JAPANESE[:7]):
            assert text_of(text.encode(codec), "a.txt") == text
        assert text_of(b"Bush hid the facts", "a.txt") == "Bush hid the facts"

    @pytest.mark.parametrize(
        ("data", "shown"),
        [
            (b"Gr\xc3\xb6\xc3\x9fe caf\xe9 noir", "Größe café noir"),
            ((GERMAN * 3).encode() + b" it\x92s \x93so\x94", GERMAN * 3 + " it’s “so”"),
            ("Über München…".encode()[:-1] + b" end", "Über München\ufffd end"),
        ],
    )
    def test_stray_bytes_in_utf8(self, data: bytes, shown: str):
        assert text_of(data, "a.txt") == shown
        assert text_of(b"<html><meta charset=utf-8><p>" + data, "a.html") == shown

    @pytest.mark.parametrize(
        ("text", "codec", "declared"),
        [
            (GERMAN, "utf-8", "iso-8859-1"),
            (RUSSIAN, "utf-8", "windows-1252"),
            (RUSSIAN, "koi8-r", "iso-8859-1"),
            (RUSSIAN, "cp1251", "iso-8859-1"),
            (RUSSIAN, "cp1251", "koi8-r"),
            (JAPANESE, "cp932", "utf-8"),
            (JAPANESE, "cp932", "iso-2022-jp"),
            (JAPANESE, "iso-2022-jp", "shift_jis"),
        ],
    )
    def test_declarations_that_the_text_contradicts(self, text: str, codec: str, declared: str):
        coded = f"{base64.encodebytes(text.encode(codec)).decode()}"
        found = text_of(mail(coded, f"text/plain; charset={declared}", ENCODED), "a.eml")
        assert found.endswith(text.strip())
        assert text_of(f"<meta charset={declared}><p>".encode() + text.encode(codec), "a.html") == text.strip()

    def test_declarations_that_the_text_bears_out(self):
        for text, codec in (
            (RUSSIAN.upper(), "koi8-r"),
            (CZECH, "iso-8859-2"),
            (CZECH, "utf-7"),
            ("É", "iso-8859-1"),
            ("ж", "koi8-r"),
        ):
            page = f"<meta charset={codec}><p>".encode() + text.encode(codec)
            assert text_of(page, "a.html") == text.strip()

    @pytest.mark.parametrize(
        ("names", "codec"),
        [
            (["報告書.txt", "日本語の資料/予算案.txt"], "cp932"),
            (["中文报告.txt", "预算方案.txt"], "gbk"),
            (["Отчёт за год.txt", "Бюджет.txt"], "cp866"),
            (["Größe.txt", "Übersicht.txt", "España.txt"], "cp850"),
            (["報告書.txt", "Größe.txt"], "utf-8"),
        ],
    )
    def test_names_in_archives_without_a_mark_of_utf8(self, names: list[str], codec: str):
        packed = [name.encode(codec) for name in names]
        data = zip_of({"xyz"[number] * len(name): str(number).encode() for number, name in enumerate(packed)})
        for number, name in enumerate(packed):
            data = data.replace(b"xyz"[number : number + 1] * len(name), name)
        assert [line[2:] for line in text_of(data, "a.zip").split("\n") if line.startswith("# ")] == names

    def test_estonian_is_not_taken_for_hungarian(self):
        text = ESTONIAN.replace("š", "s").replace("ž", "z")
        assert text_of(text.encode("cp1252"), "a.txt") == text


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"M\"unchen, \"{U}ber, {\"o}, na\"{\i}ve, na\"\i ve", "München, Über, ö, naïve, naïve"),
        (r"Caf\'e, \c{c}a, Erd\H{o}s, Erd{\H o}s, \v Cech, \~nandu", "Café, ça, Erdős, Erdős, Čech, ñandu"),
        (r"stra\ss e, {\ss}, \L{}\'od\'z, \O slo, \AA ngstr\"om", "straße, ß, Łódź, Øslo, Ångström"),
        (
            r"\left( \item \label{a} \url{c} \over \cite{v} \'{} \omega",
            r"\left( \item \label{a} \url{c} \over \cite{v} \'{} \omega",
        ),
        (r"Un caf\'e noir, l'universit\'e de Paris, citt\`a e", "Un café noir, l'université de Paris, città e"),
        (
            r"b \\i & j \\'A, \= else $\'a \o$ \$5 \'a $$\'a$$ \'e",
            r"b \\i & j \\'A, \= else $\'a \o$ \$5 á $$\'a$$ é",
        ),
        (
            "\\'e \\(\\d x\\) \\[\n\\d x \\'a\n\\] \\'e\n"
            "\\begin{align*}\n\\d t\n\\end{align*}\\'e $a\n\\d x$ 5$ \\'e\n\n\\'e",
            "é \\(\\d x\\) \\[\n\\d x \\'a\n\\] é\n\\begin{align*}\n\\d t\n\\end{align*}é $a\n\\d x$ 5$ é\n\né",
        ),
        ("\\begin{tabbing}\nif \\=a\\'b\n\\end{tabbing}\n\\'a", "\\begin{tabbing}\nif \\=a\\'b\n\\end{tabbing}\ná"),
    ],
)
def test_accents_of_tex_are_letters(source: str, shown: str):
    assert text_of(source, "a.tex") == shown


def test_formulas_that_do_not_end_take_no_square_of_time():
    for source in (r"\(\begin{align}" * 20_000, r"\[ x" + "\n" * 20_000, "$x" * 50_001):
        assert text_of(f"\\'e {source}", "a.tex").startswith("é")


def test_accents_in_bibliographies():
    entry = r"@book{a, author = {M{\"u}ller, J{\"{o}}rg and Erd{\H{o}}s}, title = {Caf{\'e} und Stra{\ss}e: {\"O}l}}"
    shown = "@book{a, author = {Müller, Jörg and Erdős}, title = {Café und Straße: Öl}}"
    assert text_of(entry, "a.bib") == shown
