"""Addresses for people: letters instead of escapes, wherever the address stays the same one."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.commands.terminal import address, print_search
from app.types.search import Hit, HitChunk, HitDocument, SearchResult
from app.types.uris import shown_address

SITE = "https://de.wikipedia.org"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (f"{SITE}/wiki/K%C3%B6ln", f"{SITE}/wiki/Köln"),
        (f"{SITE}/wiki/%d0%9c%D0%BE%D1%81?q=%C3%A4#%C3%BC", f"{SITE}/wiki/Мос?q=ä#ü"),
        (f"{SITE}/%41%7Ea%2d", f"{SITE}/A~a-"),
        ("file:///home/M%C3%BCller/Brief%201.txt#row=2", "file:///home/Müller/Brief%201.txt#row=2"),
        (f"{SITE}/a%2Fb%3Fc%23d%25e%26f%3Dg%2B", f"{SITE}/a%2Fb%3Fc%23d%25e%26f%3Dg%2B"),  # reserved
        (f"{SITE}/a%20b%C2%A0c%E3%80%80d", f"{SITE}/a%20b%C2%A0c%E3%80%80d"),  # spaces
        (f"{SITE}/a%00%1B%5B31m%0A%C2%9B%7F", f"{SITE}/a%00%1B%5B31m%0A%C2%9B%7F"),  # controls
        (f"{SITE}/a%E2%80%AEb%E2%80%8Bc%EF%BB%BF", f"{SITE}/a%E2%80%AEb%E2%80%8Bc%EF%BB%BF"),  # invisible
        (f"{SITE}/K%F6ln", f"{SITE}/K%F6ln"),  # Latin-1
        (f"{SITE}/100%", f"{SITE}/100%"),
        ("https://xn--kln-sna.de%C3%B6/%C3%B6", "https://xn--kln-sna.de%C3%B6/ö"),
        ("upload://Brief%20an%20M%C3%BCller.txt", "Brief an Müller.txt"),
        ("notes%C3%B6", "notes%C3%B6"),  # no URI: a file may have this name
    ],
)
def test_letters_are_readable_and_all_else_stays_as_it_is(uri: str, shown: str) -> None:
    assert shown_address(uri) == shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_readable_address_is_the_same_address_and_shows_no_invisible_character(path: str) -> None:
    uri = f"{SITE}/{quote(path)}"
    shown = shown_address(uri)
    assert quote(shown, safe=":/?#[]@!$&'()*+,;=%~") == re.sub("%7E", "~", uri)
    assert unquote(shown) == unquote(uri)
    assert {unicodedata.category(each)[0] for each in shown} <= set("LMNPS")


def test_a_terminal_gets_readable_addresses_without_its_commands() -> None:
    assert address(f"{SITE}/K%C3%B6ln\x1b[31m") == f"{SITE}/Köln\N{REPLACEMENT CHARACTER}[31m"


def test_a_search_prints_readable_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    document = HitDocument("d", "Köln", f"{SITE}/wiki/K%C3%B6ln", {})
    hit = Hit(1, 0.5, document, HitChunk("c", "On the Rhine.", 0, 13, None), None)
    print_search(SearchResult("a city", "", 0, "library", (hit,), (), {}), {})
    assert f"{SITE}/wiki/Köln" in "".join(capsys.readouterr().out.split())
