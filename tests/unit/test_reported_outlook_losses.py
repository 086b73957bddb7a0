"""Losses of text that users of other readers of Outlook messages reported."""

from __future__ import annotations

import pytest
from outlook_files import Tree, compound_file, outlook_message, storage

from app.types.texts import ExtractedText
from ingest.readers.document import read_document

SUBJECT, BODY, PAGE, NAME, ADDRESS, KIND = 0x0037, 0x1000, 0x1013, 0x3001, 0x39FE, 0x0C15
CODE_PAGE, LOCALE, PAGE_OF_BODY = 0x3FFD, 0x3FF1, 0x3FDE
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю."


def read(data: bytes) -> ExtractedText:
    return read_document(data, uri="a.msg")


def message(
    properties: dict[int, str | bytes | int], *people: dict[int, str | bytes | int], code_page: str = ""
) -> bytes:
    tree: dict[str, bytes | Tree] = dict(storage(properties, header=32, code_page=code_page))
    for number, person in enumerate(people):
        tree[f"__recip_version1.0_#{number:08X}"] = storage(person, header=8, code_page=code_page)
    return compound_file(tree)


@pytest.mark.parametrize(
    ("codec", "pages"),
    [
        ("cp1251", {CODE_PAGE: 1251}),
        ("cp1251", {PAGE_OF_BODY: 1251}),
        ("cp1251", {LOCALE: 1049, PAGE_OF_BODY: 20127}),
        ("koi8-r", {PAGE_OF_BODY: 20866}),
        ("cp1251", {}),
        ("cp1251", {PAGE_OF_BODY: 65001}),
        ("utf-8", {LOCALE: 1031, PAGE_OF_BODY: 65001}),
    ],
)
def test_texts_of_eight_bits(codec: str, pages: dict[int, str | bytes | int]) -> None:
    found = read(message({SUBJECT: RUSSIAN, BODY: RUSSIAN, **pages}, {NAME: RUSSIAN}, code_page=codec))
    assert found.text == f"# {RUSSIAN}\n\nTo: {RUSSIAN}\n\n{RUSSIAN}"


def test_the_code_page_of_a_body_may_be_another_than_that_of_names() -> None:
    tree = dict(storage({SUBJECT: "Größe", LOCALE: 1031, PAGE_OF_BODY: 1251}, header=32, code_page="cp1252"))
    tree |= {f"__substg1.0_{BODY:04X}001E": RUSSIAN.encode("cp1251")}
    assert read(compound_file(tree)).text == f"# Größe\n\n{RUSSIAN}"


def test_bytes_that_fit_to_no_code_page_cost_no_message() -> None:
    data = message({SUBJECT: "Größe", BODY: "Köln", CODE_PAGE: 65001}, code_page="cp1252")
    assert read(data).text == "# Größe\n\nKöln"


def test_recipients_by_their_kind() -> None:
    people: list[dict[int, str | bytes | int]] = [
        {NAME: "Bob", ADDRESS: "bob@example.org", KIND: 1},
        {NAME: "Carl", ADDRESS: "carl@example.org", KIND: 2},
        {ADDRESS: "dora@example.org", KIND: 3},
        {NAME: "Emil", KIND: 1},
    ]
    sent = "From: Ada <ada@example.org>\nReply-To: list@example.org\nDate: Mon, 6 May 2024 07:08:00 +0000\n"
    found = read(message({SUBJECT: "S", 0x007D: sent}, *people))
    assert found.text.split("\n")[2:] == [
        "From: Ada <ada@example.org>",
        "Reply-To: list@example.org",
        "To: Bob <bob@example.org>, Emil",
        "Cc: Carl <carl@example.org>",
        "Bcc: dora@example.org",
        "Date: Mon, 6 May 2024 07:08:00 +0000",
    ]
    assert "To: Bob; Ann\nCc: Carl" in read(message({SUBJECT: "S", 0x0E04: "Bob; Ann", 0x0E03: "Carl"})).text


def test_messages_in_messages_with_their_attachments() -> None:
    inner: dict[str, bytes | Tree] = dict(storage({SUBJECT: "Inner", BODY: "Of Rome."}, header=24))
    inner["__attach_version1.0_#00000000"] = storage({0x3707: "a.csv", 0x3701: b"City,People\nRome,2\n"}, header=8)
    middle: dict[str, bytes | Tree] = dict(storage({SUBJECT: "Middle", PAGE: b"<p>Of Italy."}, header=24))
    middle["__attach_version1.0_#00000000"] = {**storage({NAME: "Inner"}, header=8), "__substg1.0_3701000D": inner}
    found = read(outlook_message("Outer", body="Of Europe.", attachments={"Middle": middle}))
    texts = ["Of Europe.", "# Middle", "Of Italy.", "# Inner", "Of Rome.", "# a.csv", "City: Rome; People: 2"]
    places = [found.text.index(text) for text in texts]
    assert places == sorted(places)
    assert "skipped" not in found.metadata
    assert found.metadata["attachments"] == 3


def test_the_page_where_it_says_more_than_the_plain_text() -> None:
    page = b"<p>We meet on Tuesday.</p><table><tr><td>Fee</td><td>4711 euros</td></tr></table>"
    found = read(outlook_message("S", body="We meet on Tuesday.", html=page))
    assert found.text.count("Tuesday") == 1
    assert "4711 euros" in found.text


def test_names_in_other_case_and_texts_that_the_table_lacks() -> None:
    tree = {name.upper(): data for name, data in storage({SUBJECT: "S", PAGE_OF_BODY: 1251}, header=32).items()}
    found = read(compound_file({**tree, f"__substg1.0_{BODY:04X}001E": RUSSIAN.encode("cp1251")}))
    assert found.text == f"# S\n\n{RUSSIAN}"
