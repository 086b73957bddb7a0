"""Chooses the title of a document among candidates, and parses declared titles."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

MAX_TITLE = 200  # characters; a longer heading is a paragraph
_SHORTENED = 120
# Placeholder titles of programs and layouts, and headings that any document may have.
_SAYING_NOTHING = re.compile(
    r"\W*(?:table of contents|contents|toc|title (?:slide|page)|untitled(?: document| presentation)?|document ?\d*|"
    r"presentation ?\d*|powerpoint presentation|slide ?\d+|sheet ?\d+|cover(?: page)?|home ?page|index|no title|"
    r"inhaltsverzeichnis|inhalt|sommaire|table des matières|índice|indice|sumário|contenido|spis treści|"
    r"новый документ|содержание|оглавление|目次|目录|目錄)\W*",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"\s*(?:#{1,6}|={1,6}|\*{1,8})[ \t]+(?P<text>.*[^\s#])[ \t#]*")
# Images, links, HTML elements, code, emphasis and anchors within a heading → the text that they show.
_INLINE_MARKUP = (
    (re.compile(r"!\[([^\[\]]*)\]\([^()]*\)"), r"\1"),
    (re.compile(r"\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])"), r"\1"),
    (
        re.compile(r"</?(?:a|b|br|center|code|em|h[1-6]|i|img|kbd|p|small|span|strong|sub|sup)(?:\s[^<>]*)?/?>", re.I),
        "",
    ),
    (re.compile(r"(`{1,2})([^`]+)\1"), r"\2"),
    (re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])([^*]+)(?<=[^\s*])\1(?![\w*])"), r"\2"),
    (re.compile(r"\s*\{#[\w-]+\}$"), ""),
)
_WORD = re.compile(r"\w")
_FRONT_MATTER = re.compile(r"\A(?P<sign>---|\+\+\+)[ \t]*\n(?P<body>.*?)^(?P=sign)[ \t]*$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^title[ \t]*[:=][ \t]*(?P<value>.*(?:\n[ \t]+\S.*)*)", re.MULTILINE | re.IGNORECASE)
_BLOCK_SIGN = re.compile(r"[>|][-+]?\s*")
# A field at the head of a text, and the title keywords of Org and AsciiDoc.
_LEADING_FIELD = re.compile(r"\A(?:[\w-]+:[^\n]*\n){0,9}?title:[ \t]+(?P<value>\S.*)", re.IGNORECASE)
_KEYWORD = re.compile(r"^(?:#\+title:|:(?:doc)?title:)[ \t]+(?P<value>\S.*)", re.MULTILINE | re.IGNORECASE)
_KEYWORD_WITHIN = 5_000


def choose_title(candidates: Iterable[str]) -> str:
    """The first usable candidate, on one line; empty without any. Candidates above 200 characters come last,
    shortened."""
    long = ""
    for candidate in candidates:
        title = " ".join(candidate.split())
        if not _WORD.search(title) or _SAYING_NOTHING.fullmatch(title):
            continue
        if len(title) <= MAX_TITLE:
            return title
        long = long or textwrap.shorten(title, _SHORTENED, placeholder=" …")
    return long


def heading_text(heading: str) -> str:
    """The heading on one line, without its markup."""
    lines = [line for line in heading.split("\n") if _WORD.search(line)]
    text = " ".join(" ".join(lines).split())
    signs = _SIGNS.fullmatch(text)
    text = signs["text"] if signs else text
    for pattern, shown in _INLINE_MARKUP:
        text = pattern.sub(shown, text)
    return " ".join(text.split())


def declared_title(text: str) -> str:
    """The title declared in the front matter or leading fields of `text`; empty without one."""
    match = None
    if matter := _FRONT_MATTER.match(text):
        match = _FIELD.search(matter["body"])
    match = match or _LEADING_FIELD.match(text) or _KEYWORD.search(text, 0, _KEYWORD_WITHIN)
    if match is None:
        return ""
    value = match["value"].strip()
    block = _BLOCK_SIGN.match(value)
    value = value.partition("\n")[0].strip() if block is None else value[block.end() :]
    for quote in "\"'":
        if len(value) > 1 and value.startswith(quote) and quote in value[1:]:
            return value[1 : value.rindex(quote)]
    return value.partition(" #")[0].strip()
