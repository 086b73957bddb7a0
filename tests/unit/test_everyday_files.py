"""Files of everyday programs: compressed files, calendars, address books, drawings, subtitles, mail of other programs,
and texts with pictures written into them."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import plistlib
import struct
from contextlib import suppress
from typing import Any, ClassVar
from xml.sax.saxutils import quoteattr

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from hypothesis import given
from hypothesis import strategies as st
from other_office_samples import content, p
from outlook_files import compound_file
from sample_files import pdf, samples, tar_of, with_part, workbook, zip_of

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers import ReadLimits
from ingest.readers.document import read_document
from ingest.readers.payloads import Payloads, is_payload
from ingest.readers.signed_files import signed_content

BYTES = base64.b64encode(bytes(range(256)) * 20).decode()


def read(data: bytes | str, name: str, **options: Any) -> ExtractedText:
    return read_document(data if isinstance(data, bytes) else data.encode(), uri=f"file:///{name}", **options)


class TestCompressedFiles:
    @pytest.mark.parametrize(
        ("compress", "suffix"), [(gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz")]
    )
    @pytest.mark.parametrize("name", ["a.csv", "a.md", "a.pdf", "a.eml"])
    def test_the_file_within_is_read_as_what_it_is(self, compress, suffix, name):
        data = samples()[name]
        plain, found = read(data, name), read(compress(data), f"{name}.{suffix}")
        assert (found.text, found.title, found.metadata) == (plain.text, plain.title, plain.metadata)
        assert found.media_type == "application/gzip"

    def test_an_archive_is_an_archive_whatever_its_name(self):
        data = gzip.compress(tar_of({"notes.txt": "Seen."}))
        for name in ("backup.tar.gz", "backup.gz", "backup"):
            assert read(data, name).text == "# notes.txt\n\nSeen."
            assert read(data, name).media_type == "application/x-tar"

    def test_within_an_archive(self):
        assert read(zip_of({"log.1.gz": gzip.compress(b"Seen.")}), "a.zip").text == "# log.1.gz\n\nSeen."

    def test_more_than_the_limit_is_refused(self):
        data = gzip.compress(b"word " * 1000)
        with pytest.raises(DocumentError, match="unpacks to more than"):
            read(data, "a.gz", limits=ReadLimits(max_expanded_bytes=4_999))
        assert read(data, "a.gz", limits=ReadLimits(max_expanded_bytes=5_000))

    def test_compressed_again_and_again_is_refused(self):
        data = b"word"
        for _ in range(9):
            data = gzip.compress(data)
        with pytest.raises(DocumentError, match="nested too deeply"):
            read(data, "a.gz")

    @pytest.mark.parametrize("name", ["a.gz", "a.txt.gz", "a"])
    def test_a_damaged_one_is_told(self, name):
        with pytest.raises(DocumentError, match="compressed file is damaged"):
            read(gzip.compress(b"words " * 99)[:-30], name)


EVENT = """BEGIN:VCALENDAR
X-WR-CALNAME:Team
BEGIN:VTIMEZONE
TZID:Europe/Berlin
X-NOTE:unseen
END:VTIMEZONE
BEGIN:VEVENT
UID:unseen@x
DTSTART;TZID=Europe/Berlin:20260105T090000
DTEND:20260105T100000Z
SUMMARY:Board\\, budget
DESCRIPTION:Of the labora
 tory\\nand the pump
ATTENDEE;CN="Lee, Ann";ROLE=CHAIR:mailto:ann@x.org
BEGIN:VALARM
DESCRIPTION:Unseen
END:VALARM
END:VEVENT
BEGIN:VTODO
SUMMARY:Order valves
DUE;VALUE=DATE:20260110
END:VTODO
END:VCALENDAR
"""
CARDS = f"""BEGIN:VCARD
VERSION:2.1
N;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:M=FCller;J=F6rg;;Dr.
TEL;WORK;VOICE:+49 30 12
ADR;HOME:;;Main St 5;Bonn;;53111;Germany
NOTE;QUOTED-PRINTABLE:Knows the=
 pump
PHOTO;ENCODING=BASE64;TYPE=JPEG:{BYTES[:60]}
 {BYTES[60:120]}

END:VCARD
BEGIN:VCARD
VERSION:4.0
FN:Ann Lee
N:Lee;Ann;;;
item1.EMAIL;TYPE=work:ann@x.org
item1.X-ABLabel:unseen
ORG:Pumps\\; Ltd;Sales
END:VCARD
"""


class TestCalendarsAndAddressBooks:
    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            ("FREQ=WEEKLY;COUNT=3", "every week, 3 times"),
            (
                "FREQ=MONTHLY;INTERVAL=2;BYDAY=2TU,-1FR;UNTIL=20250101T000000Z",
                "every 2 months on 2nd Tuesday, last Friday until 2025-01-01",
            ),
            ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=1,15", "every year on day 1, 15 in month 3"),
            ("FREQ=SOMETIMES", "FREQ=SOMETIMES"),
        ],
    )
    def test_how_an_event_repeats(self, rule: str, words: str) -> None:
        event = EVENT.replace("UID:unseen@x", f"RRULE:{rule}")
        assert f"Repeats: {words}\n" in read(event, "a.ics").text + "\n"

    @pytest.mark.parametrize("line_end", ["\n", "\r\n"])
    @pytest.mark.parametrize("name", ["a.ics", "invitation"])
    def test_what_a_calendar_shows(self, name, line_end):
        found = read(EVENT.replace("\n", line_end), name)
        assert found.title == "Team"
        assert found.text == (
            "Board, budget\n\nStart: 2026-01-05 09:00 Europe/Berlin\nEnd: 2026-01-05 10:00 UTC\n"
            "Attendee: Lee, Ann <ann@x.org>\nDescription: Of the laboratory\nand the pump\n\n"
            "Order valves\n\nDue: 2026-01-10"
        )
        assert [found.text[mark.start : mark.end] for mark in found.marks] == ["Board, budget", "Order valves"]

    @pytest.mark.parametrize("name", ["a.vcf", "card"])
    def test_what_an_address_book_shows(self, name):
        assert read(CARDS, name).text == (
            "Jörg Dr. Müller\n\nPhone: +49 30 12\nAddress: Main St 5, Bonn, 53111, Germany\nNote: Knows the pump\n\n"
            "Ann Lee\n\nOrganization: Pumps; Ltd, Sales\nEmail: ann@x.org"
        )
        assert read(CARDS.partition("END:VCARD\n")[2], name).title == "Ann Lee"

    def test_an_invitation_in_a_message(self):
        mail = (
            "From: a@x.org\nSubject: Invitation\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
            f"--b\nContent-Type: text/plain\n\nSee you.\n"
            f"--b\nContent-Type: text/calendar; method=REQUEST\n\n{EVENT}\n--b--\n"
        )
        assert "See you.\n\n# attachment\n\nBoard, budget\n\nStart: 2026-01-05 09:00" in read(mail, "a.eml").text

    def test_another_text_under_such_a_name_is_a_text(self):
        assert read("Just words: of mine.", "a.ics").text == "Just words: of mine."

    @given(st.text('BEGIN:VCARD\nEND;FN= \\"\t', max_size=200))
    def test_any_text_is_read(self, text):
        if text.strip():
            read("BEGIN:VCARD\nFN:Ann\n" + text, "a.vcf")


class TestBytesWithinTexts:
    def test_pictures_in_markdown(self):
        text = f"# Notes\n\n![][one]\n\nSeen.\n\n[one]: <data:image/png;base64,{BYTES}>\n"
        assert read(text, "a.md").text == "# Notes\n\n![][one]\n\nSeen.\n\n[one]: <data:image/png;base64,>\n"
        assert read(text, "a.txt").text.count("A" * 9) == 0

    @given(st.data())
    def test_however_the_text_arrives(self, data):
        text = f"See data: of ![a](data:image/png;base64,{BYTES[:300]}) and data:text/x;charset=utf-8;base64,QUJD. End"
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
        pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert "".join(Payloads().texts(pieces)) == (
            "See data: of ![a](data:image/png;base64,) and data:text/x;charset=utf-8;base64,. End"
        )

    def test_values_of_json_and_xml(self):
        assert read(f'{{"name": "Pump", "photo": "{BYTES}"}}', "a.json").text == "name: Pump"
        lined = "\n".join(BYTES[at : at + 76] for at in range(0, len(BYTES), 76))
        found = read(f"<a><name>Pump</name><annex>{lined}</annex><annex file='{BYTES}'/></a>", "a.xml")
        assert found.text == "name: Pump"
        assert found.metadata["skipped_parts"] == 2
        assert "annex: It holds a file in base64" in str(found.metadata["skipped"])
        picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 2).decode()
        for value in (picture, f"data:image/png;base64,{picture}"):
            found = read(f"<a><name>Pump</name><photo>{value}</photo></a>", "a.xml")
            assert (found.text, dict(found.metadata)) == ("name: Pump", {})

    LINED = "\n".join("  " + BYTES[at : at + 64] for at in range(0, len(BYTES), 64))

    CASES: ClassVar = {
        "a.json": (f'{{"name": "Pump", "annex": {{"data": "{BYTES}"}}}}', "name: Pump", "annex.data"),
        "a.jsonl": (f'{{"a": "One"}}\n{{"a": "Two", "x": ["{BYTES}"]}}', "a: One\n\na: Two", "Line 2"),
        "a.csv": (f"name,annex\nPump,{BYTES}\n", "name: Pump\n\nNo values: annex", "Row 2"),
        "a.yaml": (f"a: 1\nb: !!binary |\n{LINED}\nc: 2\n", "a: 1\nb: !!binary |\nc: 2\n", "Line 3"),
        "b.yaml": (f"a: 1\nb: {BYTES}\n", "a: 1\nb: \n", "Line 2"),
        "a.txt": (f"- BEGIN X -\n{LINED}\n- END X -\n", "- BEGIN X -\n- END X -\n", "Line 2"),
        "a.md": (f"[a](data:application/pdf;base64,{BYTES}).", "[a](data:application/pdf;base64,).", "Line 1"),
        "a.py": (f'A = (\n  "{BYTES[:76]}"\n  "{BYTES[76:152]}"\n  "{BYTES[152:228]}"\n)\n', "A = (\n)\n", "Line 2"),
    }

    @pytest.mark.parametrize("name", CASES)
    def test_every_format_notes_a_file(self, name):
        data, shown, place = self.CASES[name]
        found = read(data, name)
        assert found.text == shown
        assert (found.metadata["skipped_parts"], found.metadata["skipped"]) == (
            1,
            f"{place}: It holds a file in base64.",
        )

    def test_a_file_in_the_output_of_a_notebook(self):
        cells = [{"cell_type": "code", "source": "show()", "outputs": [{"data": {"text/plain": f"b'{BYTES}'"}}]}]
        found = read(json.dumps({"cells": cells}), "a.ipynb")
        assert found.text == "show()\n\nb''"
        assert found.metadata["skipped"] == "Cell 1: It holds a file in base64."

    @pytest.mark.parametrize(
        "text",
        [
            "".join(f"{hashlib.sha256(bytes([n])).hexdigest()}  a.txt\n" for n in range(30)),
            "".join(base64.b64encode(hashlib.sha256(bytes([n])).digest()).decode() + "\n" for n in range(30)),  # keys
            f"See https://x.org/?q={BYTES[:300].replace('/', 'a')} there.",
            f"{BYTES[:64]}\nSeen\n",
        ],
    )
    def test_what_people_wrote_line_by_line_stays(self, text):
        found = read(text, "a.txt")
        assert (found.text, "skipped" in found.metadata) == (text, False)

    @given(st.data())
    def test_lines_of_base64_however_the_text_arrives(self, data):
        text = f"One\n{self.LINED}\nSeen\n" + "x" * 50 + f"\nTwo {BYTES}.\n"
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
        pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        payloads = Payloads()
        assert "".join(payloads.texts(pieces)) == "One\nSeen\n" + "x" * 50 + "\nTwo .\n"
        assert payloads.skipped.reasons == "\n".join(f"Line {at}: It holds a file in base64." for at in (2, 111))

    @pytest.mark.parametrize(
        "text",
        [
            "MKVLAAGIVG" * 40,  # a protein
            "acgtACGT" * 40,
            "0123456789" * 40,
            "A sentence with Words and 20 numbers " * 20,
            "word" * 10,
            "https://x.org/" + "aB3" * 100 + "?q=1",
        ],
    )
    def test_what_people_read_stays(self, text):
        assert not is_payload(text)

    def test_a_book_of_fictionbook(self):
        book = (
            '<?xml version="1.0" encoding="windows-1251"?><FictionBook '
            'xmlns="http://www.gribuser.ru/xml/fictionbook/2.0">'
            "<description><title-info><book-title>О насосах</book-title></title-info></description><body><section>"
            "<title>"
            f"<p>Глава 1</p></title><p>Он <emphasis>работает</emphasis>.</p></section></body><binary>{BYTES}</binary>"
            "</FictionBook>"
        ).encode("cp1251")
        found = read(book, "a.fb2")
        assert found.title == "О насосах"
        assert found.text == "book-title: О насосах\n\nГлава 1\n\nОн работает."


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-2"])
def test_translations(charset):
    text = (
        f'# Of the team\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={charset}\\n"\n'
        '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
        '# Of the pump\n#: a.c:3\n#, fuzzy\nmsgctxt "menu"\n'
        'msgid "Open the "\n"valve"\nmsgstr "Ventil \\"öffnen\\"\\n"\n"jetzt"\n\n'
        'msgid "a valve"\nmsgid_plural "%d valves"\nmsgstr[0] "Ventil"\nmsgstr[1] "%d Ventile"\n\n'
        'msgid "Later"\nmsgstr ""\n\n#~ msgid "old"\n#~ msgstr "alt"\n'
    )
    assert read(text.encode(charset), "de.po").text.split("\n\n") == [
        'comment: Of the pump; context: menu; source: Open the valve; translation: Ventil "öffnen" jetzt',
        "source: a valve; source: %d valves; translation: Ventil; translation: %d Ventile",
        "source: Later",
    ]


@pytest.mark.parametrize("text", ["Just words: of mine.", 'msgid "open', "msgid 3\n", 'msgstr "x"\n'])
def test_other_texts_under_the_name_of_translations(text):
    assert read(text, "a.po").text.strip()


def test_tables_of_manual_pages():
    table = (
        "Before\n.TS\nallbox tab(@);\nlb lb\nl l.\nCity@River\n_\nParis@T{\nThe\n.B Seine\nriver\nT}\n"
        ".T&\nl l.\nRome@\\fBTiber\\fR\n.TE\nAfter\n"
    )
    assert read(f".TH PUMP 1\n.SH S\n{table}", "pump.man").text.split("\n\n") == [
        *("S", "Before", "City: Paris; River: The Seine river", "City: Rome; River: Tiber", "After"),
    ]


class TestPropertyLists:
    PLIST: ClassVar = {
        "Name": "Pump",
        "Count": 3,
        "On": True,
        "Icon": b"\0\1",
        "Parts": [{"Kind": "Valve"}, {"Kind": "Hose"}],
    }

    @pytest.mark.parametrize("form", list(plistlib.PlistFormat))
    def test_records(self, form):
        found = read(plistlib.dumps(self.PLIST, fmt=form, sort_keys=False), "a.plist")
        assert found.text == "Name: Pump; Count: 3; On: true\n\nParts.Kind: Valve\n\nParts.Kind: Hose"
        assert found.metadata["skipped"] == "Icon: It holds bytes that are no text."

    def test_one_in_utf16(self):
        data = plistlib.dumps({"Name": "Pump"}).decode().replace("UTF-8", "UTF-16").encode("utf-16")
        assert read(data, "a.plist").text == "Name: Pump"

    def test_one_of_before_xml_is_a_text(self):
        assert read(b'{ Name = "Pump"; Count = 3; }\n', "a.plist").text == '{ Name = "Pump"; Count = 3; }\n'

    @pytest.mark.parametrize("name", ["a.webarchive", "a"])
    def test_the_page_of_a_web_archive_and_its_frames(self, name):
        def page(text: str) -> dict[str, Any]:
            data = f"<title>Pumps</title><p>{text}</p>".encode("latin-1")
            return {
                "WebResourceData": data,
                "WebResourceMIMEType": "text/html",
                "WebResourceTextEncodingName": "latin1",
            }

        archive = {"WebMainResource": page("Müller"), "WebSubframeArchives": [{"WebMainResource": page("Frame")}]}
        found = read(plistlib.dumps(archive, fmt=plistlib.FMT_BINARY), name)
        assert (found.title, found.text) == ("Pumps", "Müller\n\nFrame")

    def test_values_that_stand_in_very_many_places(self):
        value: list[Any] = ["x"]
        for _ in range(40):
            value = [value, value]
        with pytest.raises(DocumentError, match="too many values"):
            read(plistlib.dumps(value, fmt=plistlib.FMT_BINARY), "a.plist")

    @given(st.binary(max_size=20), st.integers(0, 150))
    def test_damage(self, noise, at):
        data = plistlib.dumps(self.PLIST, fmt=plistlib.FMT_BINARY)
        with suppress(DocumentError):
            read(data[:at] + noise + data[at + len(noise) :], "a.plist")


@pytest.mark.parametrize(
    ("source", "title"),
    [
        (r"\title{Quantum vs.\ Classical\thanks{For {\em you}.}}", "Quantum vs. Classical"),
        ('\\title[Short]{\\textbf{On \\emph{M\\"uller}} \\\\ and~{V}alves% really\n}', "On Müller and Valves"),
        (r"% \title{Old}", "a.tex"),
        (r"\title{" + "{" * 99, "a.tex"),
        (r"\newcommand{\title}[1]{#1}", "a.tex"),
    ],
)
def test_titles_of_latex(source, title):
    assert read(f"\\documentclass{{article}}\n{source}\n\\begin{{document}}\nText.\n", "a.tex").title == title


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_mailbox_without_headers(line_end):
    box = "From a@x.org Mon Jun 01 10:00:00 2009\n\nOne\n\nFrom b@x.org Mon Jun 01 11:00:00 2010\n\nTwo\n"
    found = read(box.replace("\n", line_end), "a.mbox")
    assert found.text.split() == ["#", "Message", "1", "One", "#", "Message", "2", "Two"]


def test_xml_without_a_declaration():
    for name in ("a.tmx", "a.xliff", "a.dita", "a.docbook", "a.nxml", "a.tei"):
        assert read("<tu><seg>Valve</seg><seg>Ventil</seg></tu>", name).text == "seg: Valve; seg: Ventil"


class TestFrontMatter:
    YAML = (
        "---\ntitle: 'Tides: an essay'\nauthors:\n  - name: Ann Lee\n  - Bo\ndate: 2026-01-05 10:00\n"
        "lastmod: 2026-02-01\ntags: [moon, 'sea']\nlang: en-GB\nversion: 1.10\ndraft: no\n"
        "description: >\n  Of the sea,\n  and the moon.\nlinks: {code: x.org}\n---\n\n# Other\n\nText.\n"
    )
    TOML = (
        "+++\ntitle = 'Tides: an essay'\nauthors = [{name = 'Ann Lee'}, 'Bo']\ndate = 2026-01-05T10:00:00Z\n"
        "lastmod = 2026-02-01\ntags = ['moon', 'sea']\nlanguage = 'en-GB'\nversion = '1.10'\ndraft = 'no'\n"
        "description = 'Of the sea, and the moon.'\nlinks.code = 'x.org'\n+++\n# Other\n\nText.\n"
    )

    @pytest.mark.parametrize("text", [YAML, TOML, YAML.replace("\n", "\r\n"), "\ufeff" + YAML])
    @pytest.mark.parametrize("name", ["a.md", "a.qmd", "a.adoc"])
    def test_it_is_title_metadata_and_a_record(self, text, name):
        found = read(text, name)
        assert found.title == "Tides: an essay"
        assert dict(found.metadata) == {
            "author": "Ann Lee, Bo",
            "created": "2026-01-05",
            "modified": "2026-02-01",
            "tags": "moon, sea",
            "language": "en-GB",
        }
        assert found.text == (
            "tags: moon, sea; version: 1.10; draft: no; description: Of the sea, and the moon.; links.code: x.org\n\n"
            "authors.name: Ann Lee\n\nauthors: Bo\n\n# Other\n\nText.\n"
        )

    @pytest.mark.parametrize(
        "text",
        [
            "---\nA text between two rules\n---\n\nMore.\n",
            "---\ntitle: a: b: c\n---\nText.\n",  # not valid
            "---\na: &a [x, x]\nb: [*a, *a]\n---\nText.\n",
            "---\ntitle: without an end\n\nText.\n",
            "+++\ntitle: no TOML\n+++\nText.\n",
            "---\n- a: 1\n- b: 2\n---\nText.\n",
        ],
    )
    def test_what_is_none_stays(self, text):
        assert read(text, "a.md").text == text

    def test_nothing_but_front_matter(self):
        assert read("---\ntitle: Tides\nsummary: Of the sea\n---\n", "a.md").text == "summary: Of the sea"

    @given(st.text("-+.:=[]{}&*|>#'\"\n \tab", max_size=80))
    def test_any_text_is_read(self, text):
        assert read(f"---\na: 1\n{text}\n---\nEnd", "a.md").text.endswith("End")


def test_escaped_letters_of_properties():
    text = r"a = M\u00fcller \uD83D\uDE00 \ud800 \\u00fc \\\uu00e4 \u00zz"
    found = read(f"{text}\n" * 9, "a.properties")
    assert found.text == "a = Müller 😀 \ufffd \\\\u00fc \\\\ä \\u00zz\n" * 9
    assert found.metadata["language"] == "properties"


def test_a_drawing():
    found = read(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9"><title>Flow</title>'
        "<style>.a{fill:red}</style><script>no()</script>"
        '<g><text x="1"><tspan x="1">Valve</tspan><tspan x="1" dy="2">'
        'clo<tspan fill="red">sed</tspan></tspan></text></g>'
        "<foreignObject><div>Label</div></foreignObject></svg>",
        "a.svg",
    )
    assert (found.title, found.text) == ("Flow", "Flow\n\nValve closed\n\nLabel")


PAGE = "&lt;p&gt;Valve &lt;b&gt;opens&lt;/b&gt;.&lt;/p&gt;&lt;p&gt;At 3 &amp;lt; 4 bar&lt;/p&gt;"


class TestPagesWithinXml:
    @pytest.mark.parametrize("root", ["rss version='2.0'", "feed xmlns='http://www.w3.org/2005/Atom'"])
    def test_entries_of_feeds(self, root):
        found = read(f"<{root}><item><title>Pumps</title><x>{PAGE}</x></item></{root.split()[0]}>", "feed")
        assert found.text.endswith("title: Pumps\n\nValve opens.\n\nAt 3 < 4 bar")

    def test_notes_of_evernote(self):
        note = "<?xml version='1.0'?><!DOCTYPE en-note SYSTEM 'x.dtd'><en-note><div>Valve <b>opens</b></div></en-note>"
        export = f"<en-export><note><title>Pumps</title><content><![CDATA[{note}]]></content></note></en-export>"
        assert read(export, "a.enex").text == "title: Pumps\n\nValve opens"

    def test_diagrams(self):
        cells = f'<mxCell id="1"/><mxCell value="{PAGE}" vertex="1"/><mxCell value="Label"/>'
        found = read(f"<mxfile><diagram name='Flow'><root>{cells}</root></diagram></mxfile>", "flow")
        assert "Valve opens.\n\nAt 3 < 4 bar" in found.text
        assert "value: Label" in found.text

    def test_pictures_that_xml_declares(self):
        doctype = (
            '<!DOCTYPE a SYSTEM "a.dtd" [<!NOTATION TIF SYSTEM ""><!ENTITY one SYSTEM "one.tif" NDATA TIF>'
            """<!ENTITY two PUBLIC "x" 'two.tif' NDATA TIF><!ENTITY s "short">]>"""
        )
        assert read(f"<?xml version='1.0'?>{doctype}<a><b file='one'>A &s; text</b></a>", "a.xml").text == (
            "b: A short text; file: one"
        )
        with pytest.raises(DocumentError, match="declares entities"):
            read(f"<?xml version='1.0'?>{doctype.replace(' NDATA TIF', '', 1)}<a><b>&one;</b></a>", "a.xml")

    def test_listings_of_markup_stay_as_they_are(self):
        assert read(f"<book><listing>{PAGE}</listing></book>", "a.xml").text.startswith("listing: <p>Valve <b>opens")


def test_drawings_of_open_document():
    page = f"<draw:page><draw:custom-shape>{p('Valve opens')}</draw:custom-shape></draw:page>"
    media_type = "application/vnd.oasis.opendocument.graphics"
    drawing = zip_of({"mimetype": media_type, "content.xml": content("drawing", page)})
    for name in ("a.odg", "a"):
        found = read(drawing, name)
        assert (found.text, found.metadata["pages"]) == ("Valve opens", 1)


@pytest.mark.parametrize(
    ("name", "kind", "body", "shown"),
    [
        (
            "a.sxw",
            "text",
            "<text:unordered-list><text:list-item>{}</text:list-item></text:unordered-list>",
            "Valve opens",
        ),
        ("a.sxi", "presentation", "<draw:page><draw:text-box>{}</draw:text-box></draw:page>", "Valve opens"),
        (
            "a.sxc",
            "spreadsheet",
            "<table:table table:name='S'><table:table-row><table:table-cell>{}</table:table-cell></table:table-row>"
            "</table:table>",
            "Sheet S\n\nValve opens",
        ),
    ],
)
def test_documents_of_open_office_1(name, kind, body, shown):
    today = content(kind, body.format(p("Valve opens")))
    earlier = today.replace(f"<office:{kind}>", "").replace(f"</office:{kind}>", "")
    earlier = earlier.replace("<office:document-content", f'<office:document-content office:class="{kind}"')
    assert read(zip_of({"content.xml": earlier}), name).text == shown
    program = {"text": "writer", "spreadsheet": "calc", "presentation": "impress"}[kind]
    declared = zip_of({"mimetype": f"application/vnd.sun.xml.{program}", "content.xml": earlier})
    assert read(declared, "a").text == shown


VISIO = "http://schemas.microsoft.com/office/visio/2012/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MICROSOFT = "http://schemas.microsoft.com/visio/2010/relationships"


def links(*targets: tuple[str, str]) -> str:
    return (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        + "".join(f'<Relationship Id="r{at}" Type="{kind}" Target="{to}"/>' for at, (kind, to) in enumerate(targets, 1))
        + "</Relationships>"
    )


def shape(x: int, y: int, text: str | None, more: str = "", master: int = 0) -> str:
    at = f'<Cell N="PinX" V="{x}"/><Cell N="PinY" V="{y}"/>'
    own = "" if text is None else f"<Text><cp IX='0'/>{text}</Text>"
    return f'<Shape ID="1" Master="{master}">{at}{own}{more}</Shape>'


def contents(kind: str, shapes: str) -> str:
    return f'<{kind}Contents xmlns="{VISIO}"><Shapes>{shapes}</Shapes></{kind}Contents>'


def visio(*pages: str) -> bytes:
    numbers = range(1, len(pages) + 1)
    listed = "".join(f'<Page ID="{at}" Name="Sheet {at}"><Rel r:id="r{at}"/></Page>' for at in numbers)
    files = {
        "[Content_Types].xml": "<Types><Override ContentType='application/vnd.ms-visio.drawing.main+xml'/></Types>",
        "_rels/.rels": links((f"{MICROSOFT}/document", "visio/document.xml")),
        "visio/document.xml": f'<VisioDocument xmlns="{VISIO}"/>',
        "visio/_rels/document.xml.rels": links(
            (f"{MICROSOFT}/masters", "masters/masters.xml"),
            (f"{MICROSOFT}/pages", "pages/pages.xml"),
            (f"{MICROSOFT}/comments", "comments.xml"),
        ),
        "visio/pages/pages.xml": f'<Pages xmlns="{VISIO}" xmlns:r="{OFFICE}">{listed}</Pages>',
        "visio/pages/_rels/pages.xml.rels": links(*((f"{MICROSOFT}/page", f"page{at}.xml") for at in numbers)),
        "visio/masters/masters.xml": f'<Masters xmlns="{VISIO}" xmlns:r="{OFFICE}">'
        '<Master ID="7" Name="unseen"><Rel r:id="r1"/></Master></Masters>',
        "visio/masters/_rels/masters.xml.rels": links((f"{MICROSOFT}/master", "master1.xml")),
        "visio/masters/master1.xml": contents("Master", shape(0, 0, "Of a master")),
        "visio/comments.xml": f'<Comments xmlns="{VISIO}"><CommentEntry>Too thick?</CommentEntry></Comments>',
    }
    return zip_of(files | {f"visio/pages/page{at}.xml": contents("Page", page) for at, page in enumerate(pages, 1)})


class TestVisio:
    DRAWING = visio(
        shape(5, 1, "Valve closed\n")
        + shape(9, 8, "right")
        + shape(1, 8, "left", f"<Shapes>{shape(0, 0, 'within')}</Shapes>"),
        shape(1, 1, None, master=7) + shape(1, 0, "", master=7) + shape(1, 2, "Own", master=7),
    )

    @pytest.mark.parametrize("name", ["a.vsdx", "a.vsdm", "a"])
    def test_texts_from_top_to_bottom(self, name):
        found = read(self.DRAWING, name)
        assert found.text.split("\n\n") == [
            *("Sheet 1", "left", "within", "right", "Valve closed"),
            *("Sheet 2", "Own", "Of a master", "Comment: Too thick?"),
        ]
        assert [found.text[start:].partition("\n")[0] for start in found.page_starts] == ["Sheet 1", "Sheet 2"]
        assert found.metadata["pages"] == 2

    def test_a_page_that_is_damaged_is_told(self):
        found = read(with_part(self.DRAWING, "visio/pages/page1.xml", lambda page: page[:99]), "a.vsdx")
        assert "Own" in found.text
        assert "visio/pages/page1.xml" in str(found.metadata["skipped"])


def glyphs(x: float, y: float, text: str, *, size: float = 12, more: str = "") -> str:
    return f'<Glyphs OriginX="{x}" OriginY="{y}" FontRenderingEmSize="{size}" UnicodeString="{text}" {more}/>'


def xps(*pages: str, files: dict[str, str | bytes] | None = None) -> bytes:
    """`pages`: what is drawn on each. Written in UTF-16, as Windows does."""
    space = "http://schemas.microsoft.com/xps/2005/06"
    contents = "".join(f'<PageContent Source="Pages/{at}.fpage"/>' for at in range(1, len(pages) + 1))
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": links((f"{space}/fixedrepresentation", "/FixedDocSeq.fdseq")),
        "FixedDocSeq.fdseq": f'<FixedDocumentSequence xmlns="{space}"><DocumentReference '
        'Source="/Documents/1/FixedDoc.fdoc"/></FixedDocumentSequence>',
        "Documents/1/FixedDoc.fdoc": f'<FixedDocument xmlns="{space}">{contents}</FixedDocument>',
    }
    for at, page in enumerate(pages, 1):
        drawn = f'<FixedPage xmlns="{space}" Width="816" Height="1056">{page}</FixedPage>'
        parts[f"Documents/1/Pages/{at}.fpage"] = drawn.encode("utf-16")
    return zip_of(parts | (files or {}))


class TestXps:
    @pytest.mark.parametrize("name", ["a.xps", "a.oxps", "a"])
    def test_texts_in_reading_order(self, name):
        # Two columns, drawn line by line, in a canvas that is scaled.
        columns = [f"The {side} column has line {at} of its long text" for side in ("left", "right") for at in range(6)]
        drawn = "".join(
            glyphs(40, 40 + 14 * at, columns[at]) + glyphs(360, 40 + 14 * at, columns[6 + at]) for at in range(6)
        )
        page = f'<Canvas RenderTransform="1.05,0,0,1.05,9,9">{drawn}</Canvas>'
        found = read(xps(page, glyphs(40, 40, "{}Next page")), name)
        assert " ".join(found.text.split()) == " ".join([*columns, "Next page"])
        assert found.text.index("Next") in range(found.page_starts[1], found.page_starts[1] + 2)
        assert found.metadata["pages"] == 2

    def test_runs_of_one_word_are_one(self):
        widths = "Indices=',50;,50;,50'"
        page = (
            glyphs(40, 40, "val", more=widths)
            + glyphs(58, 40, "ves ", more="Fill='#FF00FF00' " + widths)
            + glyphs(82, 40, "10", more="Indices=',50;,50'")
            + glyphs(94, 35, "6", size=7)
            + glyphs(120, 40, "unseen", more="Fill='#00000000'")
            + f"<Canvas Opacity='0'>{glyphs(40, 80, 'unseen')}</Canvas>"
        )
        assert read(xps(page), "a.xps").text == "valves 10⁶"

    def test_widths_and_letters_of_a_hidden_font(self):
        guid = "00112233-4455-6677-8899-AABBCCDDEEFF"
        key = bytes.fromhex(guid.replace("-", ""))[::-1]
        font = font_of({"A": 1000, "B": 200})
        hidden = bytes(byte ^ key[at % 16] for at, byte in enumerate(font[:32])) + font[32:]
        uri = f"FontUri='/Resources/{guid}.odttf'"
        page = glyphs(40, 40, "AB", size=100, more=uri) + glyphs(160.5, 40, "A", size=100, more=uri)
        page += f"<Glyphs OriginX='40' OriginY='300' FontRenderingEmSize='12' Indices='2;1' {uri}/>"
        assert read(xps(page, files={f"Resources/{guid}.odttf": hidden}), "a.xps").text.split() == ["ABA", "BA"]

    def test_what_is_not_read_is_told(self):
        picture = "<Path><Path.Fill><ImageBrush ImageSource='/a.png'/></Path.Fill></Path>"
        found = read(xps(glyphs(40, 40, "Seen"), picture, "<"), "a.xps")
        assert found.text.strip() == "Seen"
        assert found.metadata["unread_pages"] == "2"
        assert "Documents/1/Pages/3.fpage" in str(found.metadata["skipped"])
        with pytest.raises(DocumentError, match="no text on its pages"):
            read(xps(picture), "a.xps")

    @given(st.text("(:),;0123456789.-", max_size=30), st.text(max_size=20))
    def test_any_widths_are_read(self, indices, text):
        page = "<Glyphs OriginX='1' OriginY='1' FontRenderingEmSize='9' Indices=" + quoteattr(indices)
        shown = "".join(filter(str.isprintable, text)) or "a"
        with suppress(DocumentError):
            read(xps(f"{page} UnicodeString={quoteattr(shown)}/>"), "a.xps")


def font_of(widths: dict[str, int]) -> bytes:
    glyph = TTGlyphPen(None).glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", *widths])
    builder.setupCharacterMap({ord(letter): letter for letter in widths})
    builder.setupGlyf(dict.fromkeys([".notdef", *widths], glyph))
    builder.setupHorizontalMetrics({".notdef": (500, 0)} | {letter: (width, 0) for letter, width in widths.items()})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Test"})
    builder.setupOS2()
    builder.setupPost()
    saved = io.BytesIO()
    builder.save(saved)
    return saved.getvalue()


class TestSubtitlesAndLyrics:
    SCRIPT = (
        "[Script Info]\nTitle: Film\n\n[V4+ Styles]\nFormat: Name, Fontname\n\n[Events]\n"
        "Format: Layer, Start, End, Text\n"
        "Comment: 0,0:00:00.00,0:00:01.00,unseen\nDialogue: 0,0:00:01.00,0:00:02.00,{\\i1}Well{\\i0}, hello,\\Nthere.\n"
        "Dialogue: 0,0:00:03.00,0:00:04.00,{\\an7\\p1}m 0 0 l 10 10{\\p0}\nDialogue: 0,0:00:05.00,0:00:06.00,Bye.\n"
    )

    @pytest.mark.parametrize(
        ("text", "name", "title", "shown"),
        [
            (SCRIPT, "a.ass", "Film", "Well, hello, there.\n\nBye."),
            (SCRIPT, "a.srt", "Film", "Well, hello, there.\n\nBye."),
            ("0:00:01.000,0:00:02.000\nHello.\n\n0:00:02.000,0:00:03.000\nBye.", "a.sbv", "a", "Hello.\n\nBye."),
            (
                "[ti:A song]\n[ar:Ann]\n[00:12.00]First\n[00:15.30][00:20.10]Se<00:16.00>cond\n",
                "a.lrc",
                "A song",
                "First\nSecond",
            ),
            (
                '<?xml version="1.0"?><!-- a --><tt xmlns="http://www.w3.org/ns/ttml" xmlns:m="urn:m">'
                '<head><m:title>Film</m:title></head><body><p begin="0s">Hello<br/>there.</p>'
                "<p><span>B</span>ye.</p></body></tt>",
                "a.ttml",
                "Film",
                "Hello there.\n\nBye.",
            ),
            ("Just words.", "a.ass", "a", "Just words."),
        ],
    )
    def test_what_is_spoken(self, text, name, title, shown):
        found = read(text, name)
        assert (found.title, found.text.strip()) == (title, shown)


def element(tag: int, *contents: bytes, is_open: bool = False) -> bytes:
    """An element of BER; `is_open`: of indefinite length."""
    content = b"".join(contents)
    if is_open:
        return bytes([tag, 0x80]) + content + b"\0\0"
    size = len(content).to_bytes(3, "big")
    return bytes([tag, 0x83]) + size + content


def cms(kind: int, content: bytes, *, is_open: bool = False) -> bytes:
    def of_type(number: int) -> bytes:
        return bytes([0x06, 9]) + b"\x2a\x86\x48\x86\xf7\x0d\x01\x07" + bytes([number])

    pieces = [element(0x04, content[at : at + 50]) for at in range(0, len(content), 50)]
    octets = element(0x24, *pieces, is_open=True) if is_open else element(0x04, content)
    within = element(0x30, of_type(1), element(0xA0, octets, is_open=is_open), is_open=is_open)
    signed = element(0x30, b"\x02\x01\x01", element(0x31), within, is_open=is_open)
    return element(0x30, of_type(kind), element(0xA0, signed, is_open=is_open), is_open=is_open)


SIGNED, ENVELOPED = 2, 3
INNER = "Content-Type: text/plain; charset=utf-8\r\n\r\nSeen by Müller.\r\n".encode()


def smime(content: bytes) -> bytes:
    head = b"From: a@x.org\nSubject: S\nContent-Type: application/pkcs7-mime; name=smime.p7m\n"
    return head + b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(content)


class TestMail:
    @pytest.mark.parametrize("is_open", [False, True])
    def test_the_message_within_a_signed_one(self, is_open):
        found = read(smime(cms(SIGNED, INNER, is_open=is_open)), "a.eml")
        assert found.text == "# S\n\nFrom: a@x.org\n\nSeen by Müller."
        assert "skipped" not in found.metadata
        again = b"Content-Type: application/pkcs7-mime\n\n" + cms(SIGNED, INNER)
        assert read(smime(cms(SIGNED, again)), "a.eml").text == found.text

    @pytest.mark.parametrize(
        "encrypted",
        [
            smime(cms(ENVELOPED, b"x")),
            b"From: a@x.org\nSubject: S\nContent-Type: multipart/encrypted; boundary=b\n\n"
            b"--b\nContent-Type: application/pgp-encrypted\n\nVersion: 1\n"
            b"--b\nContent-Type: application/octet-stream\n\n"
            b"-----BEGIN PGP MESSAGE-----\nhQ\n-----END PGP MESSAGE-----\n--b--\n",
        ],
    )
    def test_an_encrypted_part_is_told(self, encrypted):
        found = read(encrypted, "a.eml")
        assert found.text == "# S\n\nFrom: a@x.org"
        assert "it is encrypted" in str(found.metadata["skipped"])

    @pytest.mark.parametrize("is_open", [False, True])
    def test_a_signed_file(self, is_open):
        table = b"City,River\nParis,Seine\n"
        for name in ("a.csv.p7m", "a.p7m"):
            found = read(cms(SIGNED, table, is_open=is_open), name)
            assert found.media_type == "application/pkcs7-mime"
            assert found.text == ("City: Paris; River: Seine" if "csv" in name else table.decode())
        with pytest.raises(DocumentError, match="the file that it signs is not in it"):
            read(cms(SIGNED, b""), "a.pdf.p7m")
        mail = smime(cms(SIGNED, table)).replace(b"smime.p7m", b"a.csv.p7m")
        assert read(mail, "a.eml").text == "# S\n\nFrom: a@x.org\n\n# a.csv.p7m\n\nCity: Paris; River: Seine"

    @pytest.mark.parametrize("label", ["PKCS7", "CMS", ""])
    def test_a_signed_file_as_text(self, label):
        def armored(content: bytes) -> bytes:
            lines = base64.encodebytes(content)
            return f"-----BEGIN {label}-----\n".encode() + lines + b"-----END\n" if label else lines

        table = b"City,River\nParis,Seine\n"
        for name in ("a.csv.p7m", "a.csv.p7s", *(["a.csv.pem"] if label else [])):
            assert read(armored(cms(SIGNED, table)), name).text.replace(",", ": ").startswith("City: ")
            with pytest.raises(DocumentError, match="encrypted"):
                read(armored(cms(ENVELOPED, b"x")), name)
        assert read(smime(base64.encodebytes(cms(SIGNED, INNER))), "a.eml").text.endswith("Seen by Müller.")

    def test_a_message_without_anything_else_says_why(self):
        with pytest.raises(DocumentError, match=r"smime\.p7m: .* it is encrypted"):
            read(smime(cms(ENVELOPED, b"x")).partition(b"Subject: S\n")[2], "a.eml")

    @given(st.binary(max_size=60), st.integers(0, 200))
    def test_damaged_signatures_are_no_content(self, noise, at):
        data = cms(SIGNED, INNER, is_open=True)
        signed_content(noise)
        signed_content(data[:at] + noise + data[at + len(noise) :])

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    def test_a_message_in_utf_16(self, encoding):
        mail = "From: a@x.org\nTo: b@x.org\nSubject: S\nContent-Type: text/plain; charset=utf-8\n\nSeen by Müller.\n"
        assert read(mail.encode(encoding), "a.eml").text == "# S\n\nFrom: a@x.org\nTo: b@x.org\n\nSeen by Müller."

    @pytest.mark.parametrize("line_end", ["\n", "\r\n"])
    def test_blanks_before_colons(self, line_end):
        mail = "From  : a@x.org\nSubject\t: S\n\nSeen : as it is.\n".replace("\n", line_end)
        assert read(mail, "a.eml").text == "# S\n\nFrom: a@x.org\n\nSeen : as it is."

    def test_signatures_are_not_shown(self):
        mail = (
            b"From: a@x.org\nSubject: S\nContent-Type: multipart/signed; boundary=b\n\n--b\n" + INNER + b"--b\n"
            b"Content-Type: application/pgp-signature; name=s.asc\n\n-----BEGIN PGP SIGNATURE-----\n--b\n"
            b"Content-Type: application/pkcs7-signature; name=smime.p7s\n"
            b"Content-Transfer-Encoding: base64\n\nMIIB\n--b--\n"
        )
        found = read(mail, "a.eml")
        assert found.text == "# S\n\nFrom: a@x.org\n\nSeen by Müller."
        assert "skipped" not in found.metadata

    def test_a_message_of_apple_mail(self):
        message = b"From: a@x.org\nSubject: S\n\nSeen.\n"
        found = read(f"{len(message)}   \n".encode() + message + b'<?xml version="1.0"?><plist></plist>', "1.emlx")
        assert found.text == "# S\n\nFrom: a@x.org\n\nSeen."


def attribute(number: int, content: bytes, level: int = 1) -> bytes:
    return struct.pack("<BII", level, number, len(content)) + content + struct.pack("<H", sum(content) & 0xFFFF)


def mapi(*properties: tuple[int, int, bytes]) -> bytes:
    """A list of properties: number, kind, value."""
    data = struct.pack("<I", len(properties))
    for number, kind, value in properties:
        data += struct.pack("<HH", kind, number)
        if number >= 0x8000:
            name = "Own".encode("utf-16-le")
            data += bytes(16) + struct.pack("<II", 1, len(name)) + name + bytes(-len(name) % 4)
        data += struct.pack("<II", 1, len(value)) if kind in (0x1E, 0x1F, 0x102, 0x0D) else b""
        data += value + bytes(-len(value) % 4)
    return data


def tnef(*attributes: bytes) -> bytes:
    return b"\x78\x9f\x3e\x22\x01\0" + b"".join(attributes)


WIDE, BINARY, LONG, OBJECT = 0x1F, 0x102, 0x03, 0x0D


def wide(text: str) -> bytes:
    return text.encode("utf-16-le") + b"\0\0"


class TestMessagesPackedByOutlook:
    RICH = rb"{\rtf1\ansi The pump of M\'fcller.}"
    ATTACHED = (attribute(0x00069002, bytes(14), 2), attribute(0x0006800F, b"City,River\nParis,Seine\n", 2))
    PACKED = tnef(
        attribute(0x00069007, struct.pack("<II", 1252, 0)),
        attribute(0x00018004, b"Pumps\0"),
        attribute(0x00008000, struct.pack("<4H", 4, 26, 4, 13) + b"Ann\0SMTP:a@x.org\0"),
        attribute(0x00038005, struct.pack("<7H", 2026, 1, 5, 9, 30, 0, 1)),
        attribute(0x00069004, struct.pack("<I", 1) + mapi((0x3001, WIDE, wide("Jörg")), (0x0C15, LONG, b"\2\0\0\0"))),
        attribute(0x00069003, mapi(
            (0x8001, WIDE, wide("unseen")), (0x0017, LONG, bytes(4)),
            (0x1009, BINARY, struct.pack("<II4sI", len(RICH) + 12, len(RICH), b"MELA", 0) + RICH),
        )),
        *ATTACHED,
        attribute(0x00018010, b"a.csv\0", 2),
    )  # fmt: skip

    @pytest.mark.parametrize("name", ["winmail.dat", "a", "a.tnef"])
    def test_body_people_and_attachments(self, name):
        found = read(self.PACKED, name)
        assert found.text == (
            '# Pumps\n\nFrom: "Ann" <a@x.org>\nCc: Jörg\nDate: Mon, 05 Jan 2026 09:30:00 +0000\n\n'
            "The pump of Müller.\n\n# a.csv\n\nCity: Paris; River: Seine"
        )
        assert (found.title, found.media_type) == ("Pumps", "application/ms-tnef")

    @pytest.mark.parametrize(
        ("body", "shown"),
        [
            ("The pump of M=FCller.", "The pump of Müller."),
            ("See the attachment.", "The pump of Müller.\n\nSee the attachment."),
        ],
    )
    def test_in_a_message_it_is_a_version_of_the_body(self, body, shown):
        mail = (
            f"From: a@x.org\nSubject: S\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
            f"Content-Type: text/plain; charset=latin1\nContent-Transfer-Encoding: quoted-printable\n\n{body}\n\n--b\n"
            "Content-Type: application/ms-tnef; name=winmail.dat\nContent-Transfer-Encoding: base64\n\n"
            f"{base64.encodebytes(self.PACKED).decode()}\n--b--\n"
        )
        found = read(mail, "a.eml")
        assert found.text == f"# S\n\nFrom: a@x.org\n\n{shown}\n\n# a.csv\n\nCity: Paris; River: Seine"
        assert found.metadata["attachments"] == 1

    def test_a_message_attached_to_one(self):
        interface = bytes.fromhex("0703020000000000c000000000000046")
        inner = mapi((0x3704, WIDE, wide("inner.msg")), (0x3701, OBJECT, interface + self.PACKED))
        found = read(tnef(attribute(0x0002800C, b"Outer"), attribute(0x00069005, inner, 2)), "winmail.dat")
        assert found.text.startswith("Outer\n\n# inner.msg\n\n# Pumps")
        assert found.text.endswith("# a.csv\n\nCity: Paris; River: Seine")

    @given(st.binary(max_size=40), st.integers(6, 700))
    def test_a_damaged_one_is_read_or_refused(self, noise, at):
        with suppress(DocumentError):
            read(self.PACKED[:at] + noise + self.PACKED[at + len(noise) :], "winmail.dat")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x28\xb5\x2f\xfd" + bytes(20), "compressed with Zstandard"),
        (b"-----BEGIN PGP MESSAGE-----\n\nhQ", "encrypted"),
        (cms(ENVELOPED, b"x"), "encrypted"),
        (cms(ENVELOPED, b"words " * 999), "encrypted"),
        (b"\xd7\xcd\xc6\x9a" + bytes(20), "drawing of Windows"),
        (b"\x01\x00\x00\x00l\x00\x00\x00".ljust(40, b"\x05") + b" EMF" + bytes(20), "drawing of Windows"),
        (b"RIFF\x00\x10\x00\x00WAVEfmt " + bytes(20), "audio or video"),
        (b"AC1015" + bytes(20), "AutoCAD"),
        (b"ITSF\x03" + bytes(20), "CHM"),
        (b"bplist00" + bytes(40), "property list is damaged"),
        (b"\xffWPC" + bytes(20), "WordPerfect"),
        (b"\0\0\x1a\0\3\x10" + bytes(20), "Lotus 1-2-3"),
        (b"\xe4R\\{\x8c\xd8\xa7M" + bytes(20), "OneNote"),
        (b"\0\1\0\0Standard ACE DB" + bytes(20), "a database"),
        (b"1\xbe\0\0\0\xab" + bytes(20), "Windows Write"),
        (b"A book".ljust(60, b"\0") + b"BOOKMOBI" + bytes(20), "Kindle"),
        (compound_file({"VisioDocument": b"x"}), "Visio drawing from before 2013"),
        (compound_file({"MN0": b"x"}), "Microsoft Works"),
        (compound_file({"StarWriterDocument": b"x"}), "StarOffice"),
        (compound_file({"Strange": b"x"}), "unknown program"),
    ],
)
def test_what_cannot_be_read_is_named(data, reason):
    with pytest.raises(DocumentError, match=reason):
        read(data, "a")


def test_a_pdf_in_a_compressed_file_has_pages():
    assert len(read(gzip.compress(pdf("One", "Two")), "a.pdf.gz").page_starts) == 2


LINES = "\n".join(BYTES[at : at + 76] for at in range(0, 3_800, 76))
CELLS_OF_FODS = "".join(
    f"<table:table-row>{''.join(f'<table:table-cell><text:p>{cell}</text:p></table:table-cell>' for cell in row)}"
    "</table:table-row>"
    for row in (("name", "file"), ("Ann", BYTES))
)
FODS = (
    '<?xml version="1.0"?><office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'office:mimetype="application/vnd.oasis.opendocument.spreadsheet"><office:body><office:spreadsheet>'
    f'<table:table table:name="S">{CELLS_OF_FODS}</table:table></office:spreadsheet></office:body></office:document>'
)


@pytest.mark.parametrize(
    ("data", "uri", "place"),
    [
        (workbook({"S": [["name", "file"], ["Ann", BYTES]]}), "a.xlsx", "Row 2"),
        (FODS.encode(), "a.fods", "Row 2"),
        (f"From: a@b.org\nSubject: Ann\n\nHello\n\n{LINES}\n\nBye\n".encode(), "a.eml", "Text of the message"),
        (
            f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Ann\nATTACH;VALUE=BINARY;ENCODING=BASE64:{BYTES}\n"
            "END:VEVENT\nEND:VCALENDAR\n".encode(),
            "a.ics",
            "Ann",
        ),
    ],
)
def test_files_in_base64_are_left_out_of_cells_messages_and_calendars_and_noted(data, uri, place):
    found = read_document(data, uri=uri)
    assert "Ann" in found.text
    assert BYTES[:76] not in found.text
    assert found.metadata["skipped_parts"] == 1
    assert found.metadata["skipped"] == f"{place}: It holds a file in base64."
