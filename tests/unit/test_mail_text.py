"""What a person sees of a message is in its text."""

from __future__ import annotations

import codecs

import pytest

from app.types.texts import ExtractedText
from ingest.readers.document import read_document

HEAD = "From: ada@example.org\nTo: bob@example.org\nMIME-Version: 1.0\n"


def read(message: str | bytes, uri: str = "a.eml") -> ExtractedText:
    return read_document(message.encode() if isinstance(message, str) else message, uri=uri)


def multipart(kind: str, *parts: str, boundary: str = "b") -> str:
    inner = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary={boundary}\n\n{inner}--{boundary}--\n"


PLAIN, BLANK = "Content-Type: text/plain\n\nPLAIN words here", "Content-Type: text/plain\n\n \n"
RICH = "Content-Type: text/html\n\n<p>SEEN as HTML</p>"
TABLE = "Content-Type: text/csv; name=t.csv\nContent-Disposition: attachment; filename=t.csv\n\na,b\n1,SEEN"


@pytest.mark.parametrize(
    "body",
    [
        multipart("alternative", BLANK, RICH),
        multipart("alternative", "Content-Type: text/plain\n\nPlease use a program that shows HTML.", RICH),
        multipart("alternative", "Content-Type: text/plain; charset=utf-8\n\n\u00a0\u200b", RICH),
        multipart("alternative", RICH),
        multipart("alternative", PLAIN, multipart("related", RICH, boundary="r")),
        multipart("alternative", PLAIN, multipart("mixed", RICH, TABLE, boundary="m")),
        multipart("alternative", PLAIN, TABLE),
        multipart("mixed", PLAIN, TABLE, "Content-Type: text/plain\n\nSEEN after an attachment"),
        multipart("mixed", TABLE, "Content-Type: text/html\n\n<p>SEEN</p>"),
        multipart("mixed", multipart("alternative", BLANK, RICH, boundary="i")),
        multipart("mixed", PLAIN, "Content-Type: message/rfc822\n\nSubject: SEEN\n\nWithin."),
        multipart("report", PLAIN, "Content-Type: message/delivery-status\n\nStatus: SEEN 5.1.1"),
        multipart("signed", "Content-Type: text/plain\n\nSEEN", "Content-Type: application/pgp-signature\n\nxx"),
        "Content-Type: multipart/mixed; boundary=missing\n\nSEEN without its boundary",
        "Content-Type: text/plain; name=notes.txt\n\nSEEN with a name",
    ],
)
def test_texts_and_attachments_are_found_wherever_they_lie(body):
    assert "SEEN" in read(f"{HEAD}Subject: x\n{body}").text


def test_the_same_text_in_two_forms_is_said_once():
    body = multipart(
        "alternative", "Content-Type: text/plain\n\nOnce said", "Content-Type: text/html\n\n<p>Once said</p>"
    )
    assert read(f"{HEAD}{body}").text.count("Once said") == 1


@pytest.mark.parametrize(
    "line",
    ["From there we walked home.", "From 10:30 on it is open.", "From Mon 10:30 on it is open.\n\nReally: yes"],
)
def test_a_line_that_begins_with_from_cuts_no_mailbox(line):
    start = "From ada@example.org Tue Mar  5 10:00:00 2024\n"
    box = f"{start}{HEAD}Subject: One\n\nBefore.\n\n{line}\n\nAfter.\n\n{start}{HEAD}Subject: Two\n\nLast.\n"
    found = read(box, "a.mbox")
    assert found.metadata["messages"] == 2
    assert line.split("\n")[0] in found.text
    assert found.text.index("After.") < found.text.index("# Two")


@pytest.mark.parametrize("uri", ["a.eml", "a.mbox"])
def test_a_byte_order_mark_is_no_header(uri):
    start = "From ada@example.org Tue Mar  5 10:00:00 2024\n" if uri == "a.mbox" else ""
    found = read(codecs.BOM_UTF8 + f"{start}{HEAD}Subject: Hello\n\nText.\n".encode(), uri)
    assert "# Hello" in found.text
    assert "From: ada@example.org" in found.text


@pytest.mark.parametrize("charset", ["iso-8859-1", "latin1", "us-ascii", "windows-1252", "unknown-8bit"])
def test_bytes_of_windows_under_other_names(charset):
    body = "Preis: €12 – „gut“"
    head = f"{HEAD}Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
    assert read(head.encode() + body.encode("cp1252")).text.endswith(body)


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("=?utf-8?Q?Gr=C3=BC?= =?utf-8?Q?=C3=9Fe?=", "Grüße"),
        ("=?utf-8?B?R3LDvA==?=\n =?utf-8?B?w59l?=", "Grüße"),
        ("=?utf-8?Q?Gr=C3?= =?utf-8?Q?=BC=C3=9Fe?=", "Grüße"),
        ("Re: =?iso-8859-1?Q?Gr=FC=DFe?= an alle", "Re: Grüße an alle"),
        ("=?iso-8859-1?Q?=80=3512?=", "€512"),
        ("=?utf-8?Q?A?= =?koi8-r?B?8NLJ18XU?=", "AПривет"),
    ],
)
def test_encoded_words_are_joined(subject, shown):
    assert read(f"{HEAD}Subject: {subject}\n\nText.").title == shown


def test_a_header_that_is_not_ascii():
    assert read(f"{HEAD}Subject: ".encode() + "Größe".encode("cp1252") + b"\n\nText.").title == "Größe"


@pytest.mark.parametrize(
    ("parameters", "body", "shown"),
    [
        ("format=flowed", "One line that \ngoes on.\nNext.", "One line that goes on.\nNext."),
        ("format=flowed; delsp=yes", "Donau \ndampf", "Donaudampf"),
        ("format=flowed", "> quoted \n> text\nown", "> quoted text\nown"),
        ("format=flowed", "Bye\n-- \nAda", "Bye\n--\nAda"),
        ("format=fixed", "One \ntwo", "One \ntwo"),
    ],
)
def test_flowed_lines_are_one(parameters, body, shown):
    assert read(f"{HEAD}Content-Type: text/plain; {parameters}\n\n{body}").text.endswith(shown)


def test_a_saved_web_page_is_read_without_its_style_sheets_and_pictures():
    page = "Content-Type: text/html\nContent-Location: https://example.org/\n\n<p>SEEN</p>"
    style = "Content-Type: text/css\nContent-Location: cid:css\n\nbody { color: red }"
    picture = "Content-Type: image/png\nContent-Location: https://example.org/a.png\n\nx"
    found = read(f"{HEAD}Subject: A page\n{multipart('related', page, style, picture)}", "page.mhtml")
    assert found.text.endswith("SEEN")
    assert (found.title, found.metadata.get("attachments")) == ("A page", None)


LONG = "y" * 6_000


@pytest.mark.parametrize(
    "before",
    [f'x="{LONG}";', f'x="{LONG}; boundary=wrong";', f"({LONG}; boundary=wrong)", "x=y; " * 2_000, f"x={LONG};\n\t"],
    ids=["quoted", "quoted with a semicolon", "comment", "many", "folded"],
)
def test_what_stands_before_it_hides_no_boundary(before: str) -> None:
    parts = f"--BB\n{PLAIN}\n--BB\n{TABLE}\n--BB--\n"
    found = read(f'{HEAD}Content-Type: multipart/mixed; {before} boundary="BB"\n\n{parts}').text
    assert found.endswith("PLAIN words here\n\n# t.csv\n\na: 1; b: SEEN")


def test_what_stands_before_them_hides_neither_charset_nor_file_name() -> None:
    head = f'{HEAD}Content-Type: text/plain; x="{LONG}"; charset=koi8-r; format=flowed\n\n'
    assert read(head.encode() + "Привет \nмир".encode("koi8-r")).text.endswith("Привет мир")
    file = f'Content-Type: text/csv\nContent-Disposition: attachment; x="{LONG}"; filename="t.csv"\n\na,b\n1,2'
    assert "# t.csv" in read(f"{HEAD}{multipart('mixed', PLAIN, file)}").text


@pytest.mark.parametrize("sign", ['"', '\\"', "(", "\\", ";", '";', "a=", "boundary=", "(\\"])
def test_a_long_header_of_any_signs_is_parsed(sign: str) -> None:
    assert read(f"{HEAD}Content-Type: text/plain; {sign * 200_000}\n\nSEEN").text.endswith("SEEN")
