"""Files of every format that the readers know, made by the libraries that people write such files with."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from functools import cache
from itertools import chain

import docx
import openpyxl
import pptx
from other_office_samples import other_office_samples
from outlook_files import outlook_message
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas
from scan_samples import picture_samples

_MODIFIED = re.compile(rb"(<dcterms:modified[^>]*>)[^<]*")
CITIES = (("City", "Country"), ("Paris", "France"))


def pdf(*pages: str, title: str = "", author: str = "", password: str | None = None, owner: str | None = None) -> bytes:
    encrypt = None if password is None else StandardEncryption(password, ownerPassword=owner)
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=encrypt, invariant=True)  # always of 1 January 2000
    if title:
        canvas.setTitle(title)
    if author:
        canvas.setAuthor(author)
    for page in pages:
        for number, line in enumerate(page.split("\n")):
            canvas.drawString(72, 720 - 14 * number, line)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def word_file(*, title: str = "", author: str = "Ada", table: Sequence[Sequence[str]] = CITIES) -> bytes:
    document = docx.Document()
    document.core_properties.title = title
    document.core_properties.author = author
    document.core_properties.created = datetime.datetime(2024, 5, 1, 12)
    document.core_properties.modified = datetime.datetime(2024, 6, 2, 12)
    document.add_paragraph("Before the heading.")
    document.add_heading("Of cities", level=1)
    cells = document.add_table(len(table), len(table[0]))._cells
    for cell, text in zip(cells, chain.from_iterable(table), strict=True):
        cell.text = text
    document.add_paragraph("After the table.")
    buffer = io.BytesIO()
    document.save(buffer)
    return zip_of(unzipped(buffer.getvalue()))


def workbook(sheets: dict[str, list[list[object]]]) -> bytes:
    book = openpyxl.Workbook()
    book.properties.created = datetime.datetime(2024, 5, 1, 12)
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    # openpyxl writes the present time.
    return with_part(
        buffer.getvalue(), "docProps/core.xml", lambda xml: _MODIFIED.sub(rb"\g<1>2024-06-02T12:00:00Z", xml)
    )


def with_part(archive: bytes, part: str, change: Callable[[bytes], bytes]) -> bytes:
    return zip_of({name: change(content) if name == part else content for name, content in unzipped(archive).items()})


def unzipped(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        return {name: source.read(name) for name in source.namelist()}


def presentation(*slides: tuple[str, str], table: list[list[str]] | None = None, notes: str = "") -> bytes:
    """Slides of a title and a body; the table and the notes are on the last."""
    show = pptx.Presentation()
    show.core_properties.author = "Ada"
    show.core_properties.created = datetime.datetime(2024, 5, 1, 12)
    show.core_properties.modified = datetime.datetime(2024, 6, 2, 12)
    for title, body in slides:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = body
    if table:
        grid = slide.shapes.add_table(len(table), len(table[0]), 0, 0, 100, 100).table
        for row, cells in enumerate(table):
            for column, text in enumerate(cells):
                grid.cell(row, column).text = text
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    buffer = io.BytesIO()
    show.save(buffer)
    return zip_of(unzipped(buffer.getvalue()))


def book(*chapters: str, title: str = "A book", extra: Mapping[str, str] | None = None) -> bytes:
    items = "".join(
        f'<item id="c{n}" href="text/c%20{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(chapters))
    )
    # The manifest is in another order than the spine, which alone counts.
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = f"""<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>
        <dc:title>{title}</dc:title><dc:creator>Ada</dc:creator><dc:date>1999-05</dc:date>
        <meta property="dcterms:modified">2020-01-02T00:00:00Z</meta></metadata>
        <manifest>{items}</manifest><spine>{spine}</spine></package>"""
    container = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
        <rootfile full-path="OPS/package.opf"/></rootfiles></container>"""
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>{}</body></html>'
    files = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OPS/package.opf": package}
    files |= {f"OPS/text/c {n}.xhtml": page.format(chapter) for n, chapter in enumerate(chapters)}
    return zip_of(files | dict(extra or {}))


def message(
    body: str = "The body.",
    *,
    subject: str = "Of cities",
    attachments: Mapping[str, bytes] | None = None,
    html: bool = False,
) -> bytes:
    mail = EmailMessage()
    mail["From"] = "Ada Lovelace <ada@example.org>"
    mail["To"] = "bob@example.org"
    mail["Subject"] = subject
    mail["Date"] = "Wed, 01 May 2024 10:00:00 +0200"
    mail.set_content(body, subtype="html" if html else "plain")
    for name, data in (attachments or {}).items():
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    if mail.is_multipart():
        mail.set_boundary("=-between-=")
    return mail.as_bytes()


def mailbox(*messages: bytes) -> bytes:
    return b"\n".join(b"From ada@example.org Wed May  1 10:00:00 2024\n" + each for each in messages)


def zip_of(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980: the same bytes whenever it is made
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def tar_of(files: Mapping[str, str | bytes], *, links: Mapping[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return buffer.getvalue()


ROWS = [
    ["City", "Country", "Note"],
    ["Paris", "France", "On the Seine."],
    ["Köln", "Germany", "On the Rhine, and old."],
]
PAGE = """<!doctype html><html><head><meta charset="utf-8"><title>Of cities</title><meta name="author" content="Ada">
    <meta property="article:modified_time" content="2024-06-02T10:00:00Z"></head><body><nav>Home</nav><article>
    <h1>Of cities</h1><p>Paris lies on the Seine, and Köln on the Rhine; both are old and both are large.</p>
    <table><tr><th>City</th><th>Country</th></tr><tr><td>Paris</td><td>France</td></tr></table>
    </article><script>x = 1</script></body></html>"""
CSV = "".join(",".join(row) + "\n" for row in ([cell.replace(",", "") for cell in row] for row in ROWS))
RECORDS = [dict(zip(ROWS[0], row, strict=True)) | {"tags": ["old", "large"], "at": {"x": 1.5}} for row in ROWS[1:]]
XML = """<?xml version="1.0" encoding="utf-8"?><library xmlns="urn:example"><!-- two -->
    <book id="1"><title>Of cities</title><year>1999</year></book>
    <text><p>Some <b>bold</b> prose.</p></text></library>"""
NOTEBOOK = json.dumps(
    {
        "nbformat": 4,
        "metadata": {"language_info": {"name": "python"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Of cities\n", "\n", "Two of them."]},
            {
                "cell_type": "code",
                "source": "for city in cities:\n    print(city)",
                "outputs": [{"output_type": "stream", "text": ["Paris\n", "Köln\n"]}],
            },
        ],
    }
)
MANUAL = r""".TH CITIES 1
.SH NAME
cities \- list cities
.SH SYNOPSIS
.B cities
.RI [ options ]
.SH DESCRIPTION
Lists \fBcities\fR as Paris by their rivers.
"""
CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART:20240501T100000Z
SUMMARY:Paris\\, by the
  Seine
ATTENDEE;CN=Ada:mailto:ada@example.org
END:VEVENT
END:VCALENDAR
"""
SOURCE = "import os\n\n\ndef name(path: str) -> str:\n    return os.path.basename(path)  # the last part\n"


@cache
def samples() -> dict[str, bytes]:
    """A small real file of every format, by its name."""
    texts = {
        "a.txt": "Paris lies on the Seine.\n\nKöln lies on the Rhine.\n",
        "a.md": "# Of cities\n\n- Paris\n- Köln\n",
    }
    mail = message("Paris and Köln.", attachments={"cities.csv": CSV.encode(), "b.pdf": pdf("Attached page.")})
    files = {**texts, "table.csv": CSV, "page.html": PAGE, "deep/mail.eml": mail}
    return (
        picture_samples()
        | other_office_samples()
        | {
            "utf8.txt": texts["a.txt"].encode(),
            "utf16.txt": texts["a.txt"].encode("utf-16"),
            "latin1.txt": (texts["a.txt"] * 4).encode("latin-1"),
            "shift_jis.txt": ("今日は良い天気ですね。公園に行きましょう。" * 4).encode("shift_jis"),
            "a.md": texts["a.md"].encode(),
            "a.html": PAGE.encode(),
            "a.pdf": pdf("First page.\nWith two lines.", "Second page.", title="Of cities", author="Ada"),
            "a.docx": word_file(title="Of cities"),
            "a.pptx": presentation(("Of cities", "Paris\nKöln"), ("Two", ""), table=ROWS, notes="Speak slowly."),
            "a.xlsx": workbook({"Cities": list(map(list, ROWS)), "Numbers": [["n"], [1], [2.5]]}),
            "a.csv": CSV.encode(),
            "a.tsv": CSV.replace(",", "\t").encode(),
            "a.json": json.dumps({"title": "Of cities", "rows": RECORDS}).encode(),
            "a.jsonl": "\n".join(map(json.dumps, RECORDS)).encode(),
            "a.xml": XML.encode(),
            "a.py": SOURCE.encode(),
            "a.ipynb": NOTEBOOK.encode(),
            "a.msg": outlook_message("Of cities", body="Paris and Köln.", attachments={"cities.csv": CSV.encode()}),
            "a.1": MANUAL.encode(),
            "a.adoc": b"= Of cities\n\n== Paris\n\nOn the Seine.\n",
            "a.org": b"#+TITLE: Of cities\n\n* Paris\n\nOn the Seine.\n",
            "a.rst": b"Of cities\n=========\n\nParis lies on the Seine.\n",
            "a.srt": b"1\n00:00:01,000 --> 00:00:02,500\nParis lies on the Seine.\n",
            "a.vtt": b"WEBVTT\n\n00:01.000 --> 00:02.500\n<v Ada>Paris lies on the Seine.\n",
            "a.ass": b"[Script Info]\n[Events]\nDialogue: 0,0:00:01.00,0:00:02.50,A,,0,0,0,,{\\i1}Paris{\\i0} lies.\n",
            "a.ttml": b"<tt xmlns='http://www.w3.org/ns/ttml'><body><p>Paris lies on the Seine.</p></body></tt>",
            "a.ics": CALENDAR.encode(),
            "a.vcf": b"BEGIN:VCARD\nN;QUOTED-PRINTABLE:Lee;Ann=\n a;\nADR:;;Quai 1;Paris\nEND:VCARD\n",
            "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><text><tspan x='1'>Paris</tspan></text></svg>",
            "a.gz": gzip.compress(CSV.encode()),
            "a.yaml": b"city:\n  name: Paris\n  rivers: [Seine]\n",
            "a.epub": book("<h1>One</h1><p>First chapter.</p>", "<p>Second chapter.</p>"),
            "a.eml": mail,
            "a.mbox": mailbox(mail, message("<p>Hello <b>you</b></p>", html=True)),
            "a.zip": zip_of(files),
            "a.tar": tar_of(files, links={"link.txt": "/etc/passwd"}),
            "a.tar.gz": gzip.compress(tar_of(files), mtime=0),
            "a.tar.bz2": bz2.compress(tar_of(files)),
            "a.tar.xz": lzma.compress(tar_of(files)),
        }
    )
