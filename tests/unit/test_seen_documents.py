"""Documents of every kind, as programs write them, through upload, text route and search: nothing seen is lost."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openpyxl
import pytest
from api_application import api_of
from fastapi.testclient import TestClient
from office_files import (
    CHART,
    DIAGRAM,
    NAMES,
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
from openpyxl.comments import Comment
from other_office_samples import cell as odf_cell
from other_office_samples import open_document, p, row
from outlook_files import outlook_message
from pdf_samples import annotated, drawn, lines, two_columns
from pdf_samples import table as cells_of
from reportlab.pdfgen.canvas import Canvas
from sample_files import book, message, presentation, unzipped, word_file, workbook, zip_of


@dataclass(frozen=True)
class Seen:
    """A file, and words that its text must have, in this order. The last one is searched for."""

    name: str
    data: bytes
    texts: tuple[str, ...]
    absent: tuple[str, ...] = ()
    title: str = ""  # empty: any
    page: int | None = None  # of the hit
    media_type: str = "application/octet-stream"
    left_out: str = ""  # a part of the notes


def notes(kind: str) -> str:
    return f'<w:{kind}s {NAMES}><w:{kind} w:id="7" w:author="Ann">{paragraph(f"{kind}mark")}</w:{kind}></w:{kind}s>'


def field(result: str) -> str:
    marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
    return f"<w:p>{marks[0]}<w:r><w:instrText>REF secret</w:instrText></w:r>{marks[1]}{run(result)}{marks[2]}</w:p>"


def word_cases() -> Iterator[Seen]:
    box = drawing(text_box(paragraph("boxmark")))
    old = f"<v:shape><v:textbox><w:txbxContent>{paragraph('vmlmark')}</w:txbxContent></v:textbox></v:shape>"
    yield Seen(
        "boxes.docx",
        word(f"<w:p>{run('Before')}{box}<w:r><w:pict>{old}</w:pict></w:r></w:p>"),
        ("Before", "boxmark", "vmlmark"),
    )
    changes = (
        f"<w:p><w:ins>{run('insertedmark ')}</w:ins><w:del><w:r><w:delText>deletedmark</w:delText></w:r></w:del>"
        f"<w:moveFrom>{run('movedmark')}</w:moveFrom><w:moveTo>{run('movedmark')}</w:moveTo></w:p>"
    )
    control = f"<w:sdt><w:sdtContent>{paragraph('controlmark')}</w:sdtContent></w:sdt>"
    yield Seen(
        "changes.docx",
        word(changes + control + field("fieldmark")),
        ("insertedmark", "movedmark", "controlmark", "fieldmark"),
        absent=("deletedmark", "secret", "movedmark.*movedmark"),
    )
    references = "".join(f'<w:r><w:{kind}Reference w:id="7"/></w:r>' for kind in ("footnote", "endnote", "comment"))
    parts = {kind: (f"{kind}s", notes(kind)) for kind in ("footnote", "endnote", "comment")}
    yield Seen(
        "notes.docx",
        word(f"<w:p>{run('Noted.')}{references}</w:p>{paragraph('Below')}", parts),
        ("Noted", "footnotemark", "endnotemark", "Comment by Ann: commentmark", "Below"),
    )
    inner = table(cell("innermark") + cell("i2"), cell("i3") + cell("i4"))
    wide = cell("spanmark", '<w:gridSpan w:val="2"/>') + cell("r3")
    nested = f"<w:tc>{inner}<w:p/></w:tc>" + cell("n2") + cell("n3")
    yield Seen(
        "tables.docx",
        word(table(cell("A") + cell("B") + cell("C"), wide, nested)),
        ("A: spanmark; C: r3", "innermark"),
        absent=("spanmark.*spanmark",),
    )
    above, below = (f"<m:r><m:t>{text}</m:t></m:r>" for text in ("mass", "volume"))
    fraction = f"<m:oMath><m:f><m:num>{above}</m:num><m:den>{below}</m:den></m:f></m:oMath>"
    strict = word(f"<w:p>{fraction}</w:p>{paragraph('strictmark')}", strict=True)
    yield Seen("strict.docx", strict, ("mass/volume", "strictmark"))


def slide_cases() -> Iterator[Seen]:
    frame = "<p:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"
    chart = CHART.format(series("Applemark", {"Eastmark": "5"}))
    yield Seen(
        "chart.pptx",
        show(frame.format('<c:chart r:id="c"/>'), {"c": ("chart", "charts/c.xml", chart)}),
        ("Harvest", "Eastmark", "Applemark"),
        page=1,
    )
    art = {"d": ("diagramData", "diagrams/d.xml", DIAGRAM)}
    yield Seen("art.pptx", show(frame.format('<dgm:relIds r:dm="d"/>'), art), ("Plan", "Build"), page=1)
    choice = f'<mc:AlternateContent><mc:Choice Requires="p14">{shape("choicemark", description="altmark")}</mc:Choice>'
    choice += f"<mc:Fallback>{shape('fallbackmark')}</mc:Fallback></mc:AlternateContent>"
    yield Seen("choice.pptx", show(choice), ("altmark", "choicemark"), absent=("fallbackmark",), page=1)
    slides = [(f"Slide {number}", f"pagemark{number}") for number in range(1, 13)]
    yield Seen("twelve.pptx", presentation(*slides), ("pagemark7", "pagemark8"), page=8)


def sheet_cases() -> Iterator[Seen]:
    found = openpyxl.Workbook()
    sheet = found.active
    for values in (["Report of May"], [], ["Region", "Units"], ["East", 5], [None, 6], [], ["City", "People"]):
        sheet.append(values)
    sheet.append(["Romemark", 2.8])
    sheet.merge_cells("A1:B1")
    sheet.merge_cells("A4:A5")
    sheet["B5"].comment = Comment("commentmark", "Ann")
    buffer = io.BytesIO()
    found.save(buffer)
    yield Seen(
        "report.xlsx",
        buffer.getvalue(),
        (
            *("Report of May", "Region: East; Units: 5", "Region: East; Units: 6", "City: Romemark; People: 2.8"),
            "commentmark",
        ),
        absent=(r"Column \d",),
    )
    formulas = workbook({"S": [["Item", "Sum"], ["formulamark", "=SUM(A1:A9)"]]})
    yield Seen("formula.xlsx", formulas, (r"Sum: =SUM\(A1:A9\)",))
    bank = "Konto;4711\n\nTag;Betrag;Text\n02.01.2026;-3,50;Miete, Januar\n03.01.2026;-8,00;bankmark\n"
    yield Seen("bank.csv", bank.encode("cp1252"), ("Betrag: -3,50", "Text: Miete, Januar", "Text: bankmark"))
    yield Seen("excel.csv", b"sep=;\nName;Age\nAda, L;36\nsepmark;40\n", ("Name: Ada, L", "Name: sepmark; Age: 40"))
    quote = b'id,text\n1,"open quotemark\n2,second\n3,thirdmark\n'
    yield Seen("quote.csv", quote, ("open quotemark", "id: 2; text: second", "id: 3; text: thirdmark"))
    old = f"<table:table table:name='S'>{row(odf_cell('odsmark'))}</table:table>"
    yield Seen("old.ods", open_document("spreadsheet", old), ("odsmark",))


def page_cases() -> Iterator[Seen]:
    cells = "<table><tr><th>Name<th>Parts<tr><td>Light<br>Show<td><ul><li>Aurora<li>Borealis</ul></table>"
    yield Seen("cells.html", cells.encode(), (r"Light\W+Show", r"Aurora\W+Borealis"), absent=("AuroraBorealis",))
    posts = "".join(f'<div class="comment"><p>postmark{number}</p></div>' for number in range(4))
    thread = f"<h1>A thread</h1><aside>warnmark</aside>{posts}"
    yield Seen("thread.html", thread.encode(), ("warnmark", "postmark0", "postmark3"), title="A thread")
    form = "<p>Form</p><label>Your name <input value=valuemark></label><textarea>areamark</textarea>"
    code = "<pre>if x:\n    return codemark</pre><figure><figcaption>captionmark</figcaption></figure>"
    yield Seen("form.html", (form + code).encode(), ("valuemark", "areamark", "    return codemark", "captionmark"))
    yield Seen("mixed.xml", b"<a>one<b>two </b>tailmark <b>three</b></a>", (r"two\W+tailmark\W+three",))
    chapter = "<h1>Chapter</h1><p>One paragraph\nof three\nlines.</p><p>bookmark</p>"
    yield Seen("book.epub", book(chapter), ("One paragraph of three lines.", "bookmark"), title="A book")


def mail_cases() -> Iterator[Seen]:
    head = "From: ada@example.org\nSubject: Of cities\nMIME-Version: 1.0\nContent-Type: multipart/{}; boundary=b\n\n"
    blank = "--b\nContent-Type: text/plain\n\n \n"
    rich = "--b\nContent-Type: text/html\n\n<p>richmark</p>\n"
    file = "--b\nContent-Type: text/csv; name=t.csv\nContent-Disposition: attachment\n\na,b\n1,filemark\n"
    late = "--b\nContent-Type: text/plain\n\nlatemark\n"
    yield Seen(
        "blank.eml", f"{head.format('alternative')}{blank}{rich}--b--".encode(), ("richmark",), title="Of cities"
    )
    yield Seen(
        "inner.eml",
        f"{head.format('alternative')}{rich.replace('rich', 'html')}{file}--b--".encode(),
        ("htmlmark", "filemark"),
    )
    yield Seen(
        "late.eml",
        f"{head.format('mixed')}{file.replace('filemark', 'tablemark')}{late}--b--".encode(),
        ("latemark", "tablemark"),
    )
    words = "=?utf-8?B?R3I=?= =?utf-8?B?w7zDn2U=?="
    folded = f"From: a@example.org\nSubject: {words}\nContent-Type: text/plain; format=flowed\n\nOne line \nflowmark\n"
    yield Seen("flowed.eml", b"\xef\xbb\xbf" + folded.encode(), ("One line flowmark",), title="Grüße")
    windows = (
        b"From: a@example.org\nSubject: x\nContent-Type: text/plain; charset=iso-8859-1\n\n\x93signmark\x94 \x80 5\n"
    )
    yield Seen("windows.eml", windows, ("“signmark” € 5",))
    letter = message("First.\n\nFrom the beginning it was so.\n\nboxedmark")
    yield Seen(
        "all.mbox", b"From a@example.org Wed May  1 10:00:00 2024\n" + letter, ("From the beginning", "boxedmark")
    )
    yield Seen("a.msg", outlook_message("Of ports", body="outlookmark"), ("Of ports", "outlookmark"), title="Of ports")


def pdf_cases() -> Iterator[Seen]:
    widget = b"<</Type/Annot/Subtype/Widget/Rect[40 %d 300 %d]/F 4/P 3 0 R/FT%s>>"
    filled = widget % (300, 318, b"/Tx/T(name)/V(valuemark)")
    chosen = widget % (260, 290, b"/Ch/T(c)/Opt[(North)(Southmark)]/V(North)")
    note = b"<</Type/Annot/Subtype/FreeText/Rect[40 200 300 230]/F 4/DA(/F1 12 Tf)/Contents(freemark)>>"
    yield Seen("form.pdf", annotated(filled, chosen, note), ("Name of", "valuemark", "Southmark", "freemark"), page=1)
    left = [f"the left column has a line {number} of its prose" for number in range(6)]
    right = [f"and the right column has line {number} of another" for number in range(6)]
    columns = drawn(
        two_columns([*left[:5], left[5]], [*right[:5], "and at the end it has the columnmark"], row_by_row=True)
    )
    yield Seen("columns.pdf", columns, ("left column has a line 5", "right column has line 0", "columnmark"), page=1)
    rows = [["Item", "Price"], ["Hammer", "10.00"], ["Sawmark", "15.50"], ["Nail", "0.05"]]
    yield Seen("cells.pdf", drawn(cells_of(rows, by_column=True)), (r"Hammer\s10.00", r"Sawmark\s15.50"), page=1)

    def bold(canvas: Canvas) -> None:
        for shift in (0, 0.3):
            canvas.drawString(60 + shift, 700, "A boldmark heading")

    yield Seen("bold.pdf", drawn(bold), ("A boldmark heading",), absent=("boldmark.*boldmark",), page=1)
    hyphens = drawn(
        lines("This is a well-", "known harbour, and the com-", "puter has a hyphenmark in it for self-", "esteem.")
    )
    yield Seen("hyphens.pdf", hyphens, ("well-known", "computer", "self-esteem"), page=1)
    pages = [lines(f"Title of slide {number}", f"slidemark{number} and a line") for number in range(1, 13)]
    yield Seen("slides.pdf", drawn(*pages) + b"\n<p>junk</p>", ("slidemark7", "slidemark8"), absent=("junk",), page=8)


def encoding_cases() -> Iterator[Seen]:
    signs = "Rent £450, tax €12 at 20 °C – “quotedmark”"
    yield Seen("signs.txt", signs.encode("cp1252"), (signs,))
    yield Seen(
        "loan.txt",
        "A naïve approach to the whole of the long task, with a loanmark.".encode("cp1252"),
        ("naïve", "loanmark"),
    )
    yield Seen(
        "ru.txt",
        "Привет, городок".encode("cp1251"),
        ("Привет, городок",),
        media_type="text/plain; charset=windows-1251",
    )
    latin = b"<meta charset=iso-8859-1><p>\x80 5 metamark caf\xe9</p>"
    yield Seen("meta.html", latin, ("€ 5 metamark café",))
    xml = "<?xml version='1.0' encoding='koi8-r'?><a>Москва xmlmark</a>".encode("koi8-r")
    yield Seen("koi.xml", xml, ("Москва xmlmark",))
    yield Seen("code.py", "# -*- coding: cp1251 -*-\n# Привет codemark\n".encode("cp1251"), ("Привет codemark",))
    yield Seen("wide.csv", "Name;Größe\nwidemark;5 €\n".encode("utf-16"), ("Größe: 5 €",))


def title_cases() -> Iterator[Seen]:
    def stamped(canvas: Canvas) -> None:
        canvas.saveState()
        canvas.translate(20, 300)
        canvas.rotate(90)
        canvas.setFont("Helvetica", 20)
        canvas.drawString(0, 0, "arXiv:2004.04906v3 [cs.CL] 30 Sep 2020")
        canvas.restoreState()
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(100, 780, "On the stampmark of tides")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(100, 700, "The moon pulls the sea, and the tide follows later.")

    yield Seen("paper.pdf", drawn(stamped), ("stampmark",), title="On the stampmark of tides")
    yield Seen("fence.md", b"```sh\n# comment\n```\n\n# Real fencemark\n", ("fencemark",), title="Real fencemark")
    yield Seen(
        "matter.md",
        b'---\ntitle: "Front: matter"\n---\n\n# Other\n\nmattermark',
        ("mattermark",),
        title="Front: matter",
    )
    yield Seen("toc.docx", word_file(title="Table of Contents"), ("Before the heading",), title="Of cities")
    readme = b'<h1 align="center">My <a href="x">readmemark</a></h1>\n\nText\n\n## Install\n'
    yield Seen("readme.md", readme, ("readmemark",), title="My readmemark")
    rst = b"Title\n=====\n\nfirst\n\nPart\n----\n\nrstmark\n"
    yield Seen("a.rst", rst, ("first", "Part", "rstmark"), title="Title")


def suffix_cases() -> Iterator[Seen]:
    notebook = {"cells": [{"cell_type": "markdown", "source": ["notebookmark"]}], "metadata": {}, "nbformat": 4}
    yield Seen("a.ipynb", json.dumps(notebook).encode(), ("notebookmark",))
    yield Seen("a.rtf", rb"{\rtf1\ansi Caf\'e9 rtfmark\par}", ("Café rtfmark",))
    yield Seen("a.odt", open_document("text", p("odtmark")), ("odtmark",))
    yield Seen("a.docm", word(paragraph("docmmark")), ("docmmark",))
    yield Seen("README", b"A readme without a suffix: plainmark\n", ("plainmark",))
    yield Seen("tool.1", b".TH TOOL 1\n.SH NAME\ntool \\- does manualmark\n", ("manualmark",))
    yield Seen("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\nsubtitlemark\n", ("subtitlemark",), absent=("00:00",))
    yield Seen("a.adoc", b"= Title\n\nadocmark\n", ("adocmark",), title="Title")
    yield Seen("a.org", b"#+TITLE: Title\n* Part\norgmark\n", ("orgmark",), title="Title")
    yield Seen("mail.pdf", message("mailmark"), ("mailmark",), title="Of cities")


def bad_part_cases() -> Iterator[Seen]:
    rows = b'{"a": "firstrow"}\n{"a": "broken\n{"a": "lastrowmark"}\n'
    yield Seen("rows.jsonl", rows, ("firstrow", "lastrowmark"), left_out="Line 2")
    members = zip_of({"good.txt": "membermark", "bad.pdf": "%PDF-1.4 cut"})
    yield Seen("files.zip", members, ("membermark",), left_out="bad.pdf")
    yield Seen(
        "mail.eml",
        message("keptmark", attachments={"bad.png": b"\x89PNG\r\n\x1a\nx"}),
        ("keptmark",),
        left_out="bad.png",
    )
    damaged = dict(unzipped(word(f"<w:p>{run('bodymark')}</w:p>", {"footnote": ("footnotes", notes("footnote"))})))
    damaged["word/footnote.xml"] = b"<w:footnotes"
    yield Seen("damaged.docx", zip_of(damaged), ("bodymark",), left_out="word/footnote.xml")
    private = drawn(lines("A page with a tokenmark", "and \ue000\ue001\ue002 signs"))
    yield Seen("private.pdf", private, ("tokenmark",))


def name_cases() -> Iterator[Seen]:
    for folder in ("2023", "2024"):
        yield Seen(f"{folder}/notes.txt", f"foldermark{folder}".encode(), (f"foldermark{folder}",), title="notes")
    composed = unicodedata.normalize("NFC", "Übersicht.txt")
    yield Seen(composed, b"composedmark", ("composedmark",), title="Übersicht")
    yield Seen("50% [of] #1?.txt", b"hostilemark", ("hostilemark",), title="50% [of] #1?")


KINDS = {
    "encodings": encoding_cases,
    "word": word_cases,
    "slides": slide_cases,
    "sheets": sheet_cases,
    "html": page_cases,
    "mail": mail_cases,
    "pdf": pdf_cases,
    "titles": title_cases,
    "suffixes": suffix_cases,
    "bad parts": bad_part_cases,
    "names": name_cases,
}


@pytest.fixture
def client(toy_services: Any) -> TestClient:
    toy_services.services.library.ensure_collection("library")
    return TestClient(api_of(toy_services.services))


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_finds_what_they_see(kind: str, client: TestClient, toy_services: Any) -> None:
    cases = list(KINDS[kind]())
    assert len(cases) > 2
    uploaded = {}
    for case in cases:
        answer = client.post("/api/v1/documents", files={"file": (case.name, case.data, case.media_type)})
        assert answer.status_code == 202, f"{case.name}: {answer.text}"
        uploaded[case.name] = answer.json()["document"]["id"]
    assert len(set(uploaded.values())) == len(cases)
    toy_services.work_off()
    for case in cases:
        document = client.get(f"/api/v1/documents/{uploaded[case.name]}").json()
        assert document["state"] == "ready", f"{case.name}: {document}"
        assert document["title"] == (case.title or document["title"])
        assert case.left_out in "\n".join(document["left_out"])
        assert bool(document["left_out"]) is bool(case.left_out), document["left_out"]
        text = client.get(f"/api/v1/documents/{document['id']}/text", params={"end": 20_000}).json()["text"]
        assert re.search(".*?".join(case.texts), text, re.DOTALL), f"{case.name}: {text}"
        for absent in case.absent:
            assert not re.search(absent, text, re.DOTALL), f"{case.name}: {text}"
        assert_found(client, case, document["id"])


def assert_found(client: TestClient, case: Seen, document_id: str) -> None:
    sought = case.texts[-1]
    query = re.sub(r"\\.\+?", " ", sought)
    body = client.post("/api/v1/search", json={"query": query, "collection": "library", "limit": 50}).json()
    hits = [hit for hit in body["hits"] if hit["document"]["id"] == document_id]
    hit = next((hit for hit in hits if re.search(sought, hit["chunk"]["text"])), None)
    assert hit is not None, f"{case.name}: {query!r} is not found in {hits}"
    if case.page is not None:
        assert hit["chunk"]["page"] == case.page


def test_twins_of_a_name_in_two_forms_are_one_document(client: TestClient, toy_services: Any) -> None:
    names = [unicodedata.normalize(form, "Übersicht é.txt") for form in ("NFC", "NFD")]
    for number, name in enumerate(names):
        client.post("/api/v1/documents", files={"file": (name, f"version {number}".encode(), "text/plain")})
        toy_services.work_off()
    found = client.get("/api/v1/documents", params={"collection": "library"}).json()
    assert len(names) == len(set(names)) == 2
    assert len(found) == 1
