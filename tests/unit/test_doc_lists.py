"""Automatic numbers of Word 97 documents: of paragraphs and styles, with levels, restarts and overrides."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from other_office_samples import old_word

from ingest.readers.doc_lists import DocLabels
from ingest.readers.document import read_document

DECIMAL, ROMAN, LETTER, BULLET, NONE = 0, 1, 4, 23, 255
STYLES, LISTS, USES = 0xA2, 0x2E2, 0x2EA


def level(form: int, text: str, *, start: int = 1, flags: int = 0, restart: int = 0) -> bytes:
    """A level of a list; `%1` in its text is the number of the outermost."""
    for depth in range(9):
        text = text.replace(f"%{depth + 1}", chr(depth))
    head = struct.pack("<IBB9sBIIBBBB", start, form, flags, b"", 0, 0, 0, 2, 3, restart, 0)
    return head + b"xxx" + b"xx" + struct.pack("<H", len(text)) + text.encode("utf-16-le")


def lists(*each: Sequence[bytes]) -> bytes:
    heads = b"".join(
        struct.pack("<II18sBB", 1000 + number, 0, b"\xff\x0f" * 9, len(levels) == 1, 0)
        for number, levels in enumerate(each)
    )
    padded = [[*levels, *[level(NONE, "")] * (9 - len(levels) if len(levels) > 1 else 0)] for levels in each]
    return struct.pack("<H", len(each)) + heads + b"".join(b"".join(levels) for levels in padded)


def uses(*each: tuple[int, Sequence[bytes]]) -> bytes:
    """Each use of a list, by its number, with what it changes."""
    heads = b"".join(struct.pack("<IIIBBBB", 1000 + number, 0, 0, len(changed), 0, 0, 0) for number, changed in each)
    changes = b"".join(b"\xff" * 4 + b"".join(changed) for _, changed in each)
    return struct.pack("<I", len(each)) + heads + changes


def listed(use: int, depth: int = 0, style: int = 0) -> bytes:
    return struct.pack("<HHhHB", style, 0x460B, use, 0x260A, depth)


def plain(style: int = 0) -> bytes:
    return struct.pack("<H", style)


def style(name: str, changes: bytes, base: int = 0xFFF) -> bytes:
    head = struct.pack("<HHHHH", 0, 1 | base << 4, 2, 0, 0) + struct.pack("<H", len(name)) + name.encode("utf-16-le")
    head += b"\0\0"
    return head + struct.pack("<HH", len(changes) + 2, 0) + changes


def styles(*each: bytes) -> bytes:
    packed = b"".join(struct.pack("<H", len(one)) + one + b"\0" * (len(one) % 2) for one in each)
    return struct.pack("<HHH", 4, len(each), 10) + packed


def document(*paragraphs: tuple[str, bytes], **tables: bytes) -> bytes:
    places = {"styles": STYLES, "lists": LISTS, "uses": USES}
    text = "".join(text if text.endswith("\a") else f"{text}\r" for text, _ in paragraphs)
    return old_word(text, [each for _, each in paragraphs], {places[name]: part for name, part in tables.items()})


def lines(data: bytes) -> list[str]:
    return read_document(data, uri="a.doc").text.split("\n\n")


OUTLINE = [level(ROMAN, "Article %1."), level(DECIMAL, "%1.%2", flags=4), level(LETTER, "%3)")]


def test_levels_count_and_restart() -> None:
    places = [("Cities", 0), ("Rome", 1), ("Old", 2), ("New", 2), ("Paris", 1), ("Rivers", 0), ("Tiber", 1)]
    data = document(
        *((text, listed(1, depth)) for text, depth in places),
        ("End", plain()),
        lists=lists(OUTLINE),
        uses=uses((0, ())),
    )
    assert lines(data) == [
        *("Article I. Cities", "1.1 Rome", "a) Old", "b) New", "1.2 Paris", "Article II. Rivers", "2.1 Tiber", "End"),
    ]


def test_lists_of_one_level_bullets_and_texts_without_numbers() -> None:
    kinds = lists([level(DECIMAL, "%1)", start=5)], [level(BULLET, "\xb7")], [level(NONE, "Note:")])
    every = uses((0, ()), (1, ()), (2, ()))
    texts = [("Five", listed(1)), ("Dot", listed(2)), ("Said", listed(3)), ("Six", listed(1)), ("No", listed(0))]
    assert lines(document(*texts, lists=kinds, uses=every)) == ["5) Five", "Dot", "Note: Said", "6) Six", "No"]


def test_uses_of_a_list_count_on_unless_they_start_anew() -> None:
    anew = struct.pack("<II", 7, 0x10)
    other = struct.pack("<II", 0, 0x20) + level(LETTER, "%1:")
    every = uses((0, ()), (0, ()), (0, (anew,)), (0, (other,)))
    texts = [(text, listed(use)) for text, use in (("A", 1), ("B", 2), ("C", 3), ("D", 3), ("E", 4))]
    assert lines(document(*texts, lists=lists([level(DECIMAL, "%1.")]), uses=every)) == [
        *("1. A", "2. B", "7. C", "8. D", "i: E"),
    ]


def test_levels_that_do_not_restart() -> None:
    levels = [level(DECIMAL, "%1."), level(DECIMAL, "(%2)", flags=8, restart=0)]
    texts = [(text, listed(1, depth)) for text, depth in (("A", 0), ("a", 1), ("B", 0), ("b", 1))]
    assert lines(document(*texts, lists=lists(levels), uses=uses((0, ())))) == ["1. A", "(1) a", "2. B", "(2) b"]


def test_styles_number_their_paragraphs() -> None:
    in_list = struct.pack("<HhHB", 0x460B, 1, 0x260A, 1)
    every = styles(style("Normal", b""), style("Head", in_list), style("Based", b"", base=1))
    texts = [("A", listed(1)), ("B", plain(1)), ("C", plain(2)), ("D", listed(0, style=1)), ("E", plain(9))]
    data = document(*texts, styles=every, lists=lists(OUTLINE), uses=uses((0, ())))
    assert lines(data) == ["Article I. A", "1.1 B", "1.2 C", "D", "E"]


def test_empty_paragraphs_count_and_numbers_alone_in_cells_are_told() -> None:
    texts = [("A", listed(1)), ("", listed(1)), ("C", listed(1))]
    numbered = {"lists": lists([level(DECIMAL, "%1.")]), "uses": uses((0, ()))}
    assert lines(document(*texts, **numbered)) == ["1. A", "3. C"]
    labels = DocLabels(document(("\a", listed(1)), ("\a", listed(1)), ("City\a", plain()), **numbered))
    assert (labels.is_known, labels.shown("City"), labels.unused) == (True, "City", 2)
    found = read_document(document(("A", listed(1)), ("\a", listed(1)), **numbered), uri="a.doc")
    assert found.metadata["skipped"] == "Automatic numbers that are not read: 1."


def test_fields_without_results_show_what_their_instructions_say() -> None:
    base = '\x13 EQ \\* jc3 \\* "Font:Serif" \\* hps12 \\o\\al(\\s\\up 11(とうきょう),東京)\x15'
    texts = [
        ("To: \x13 MACROBUTTON None [a name]\x15 now", listed(1)),
        ("To: \x13 XE index\x15 now", plain()),
        ("To: \x13 SYMBOL 169 \x15 now\x0bhere", plain()),
        ("\x13MACROBUTTON None Alone\x15", plain()),
        (f"In {base}に", plain()),
        ("\x13 REF x \x14shown\x15 as it is", plain()),
    ]
    data = document(*texts, lists=lists([level(DECIMAL, "%1.")]), uses=uses((0, ())))
    assert lines(data) == [
        *("1. To: [a name] now", "To:  now", "To: © now\nhere", "In 東京 (とうきょう)に", "shown as it is", "Alone"),
    ]


@pytest.mark.parametrize("harm", ["lists", "uses", "styles"])
def test_damaged_tables_cost_the_numbers_alone(harm: str) -> None:
    tables = {"lists": lists(OUTLINE), "uses": uses((0, ())), "styles": styles(style("Normal", b""))}
    tables[harm] = {
        "lists": b"\xff\xff",
        "uses": b"\xff\xff\xff\xff",
        "styles": b"\x04\0\xff\xff\xff\xff" + b"\x09\0" * 20,
    }[harm]
    data = document(("Rome", listed(1)), ("Paris", plain(3)), **tables)
    assert not DocLabels(data).is_known
    assert lines(data) == ["Rome", "Paris"]


def test_pieces_that_repeat_the_text_are_damage() -> None:
    data = bytearray(old_word("Rome\r" * 9))
    at = data.index(struct.pack("<BIII", 2, 16, 0, 45))
    struct.pack_into("<I", data, at + 9, 0x7FFFFFF)
    assert not DocLabels(bytes(data)).is_known
