"""Finds Markdown syntax in a passage to hide it: `**`, `#`, link addresses; `#` before subjects and member names."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SUFFIXES = (".md", ".markdown", ".mdown", ".mkd")
# Their readers put "# " before the name of each member or attachment, and before the subject of a message, which its
# headers follow. Any other line may be a comment.
_MESSAGES = (".eml", ".emlx", ".msg", ".mbox")
_CONTAINERS = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz", *_MESSAGES)
_MEMBER = re.compile(
    r"(?:\A|(?<=\n\n))# (?=[^\n]*[^\s.]\.\w{1,8}(?:\n\n|\Z)|[^\n]+\n\n(?:From|Reply-To|To|Cc|Bcc|Date): )"
)
_FENCED = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$\n?|\Z)", re.MULTILINE | re.DOTALL)
_SIGNS = re.compile(
    r"(?P<code>(?P<ticks>`+)(?P<inner>[^`\n]+)(?P=ticks))"
    r"|(?P<sign>^[ ]{0,3}\#{1,6}[ \t]+"  # a heading
    r"|^[ \t]*>[ \t]?"  # a quote
    r"|!?\[(?=[^\]\n]*\]\([^)\n]*\))|\]\((?:[a-z]+:|[\w./\#-])[^)\n]*\)"  # a link, a picture
    r"|\*\*(?=[^\s*])|(?<=[^\s*])\*\*"
    r"|(?<!\w)__(?=[^\s_])|(?<=[^\s_])__(?!\w)"
    r"|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])"
    r"|(?<!\w)_(?=[^\s_])|(?<=[^\s_])_(?!\w))",
    re.MULTILINE,
)


def hidden_spans(text: str, uri: str) -> Iterator[tuple[int, int]]:
    """Sorted character ranges [start, end) of a passage that readers of the document `uri` should not see."""
    path = uri.partition("#")[0].lower()
    if path.endswith(_SUFFIXES):
        yield from sign_spans(text)
    elif path.endswith(_CONTAINERS):
        yield from (found.span() for found in _MEMBER.finditer(text))


def sign_spans(text: str) -> Iterator[tuple[int, int]]:
    """Sorted character ranges [start, end) of Markdown syntax. In code, only the fences count."""
    at = 0
    for block in _FENCED.finditer(text):
        yield from _signs_of(text, at, block.start())
        yield block.start(), block.start(2)
        yield block.end(2), block.end()
        at = block.end()
    yield from _signs_of(text, at, len(text))


def _signs_of(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for found in _SIGNS.finditer(text, start, end):
        if found["code"]:
            yield found.start("code"), found.start("inner")
            yield found.end("inner"), found.end("code")
        else:
            yield found.span("sign")
