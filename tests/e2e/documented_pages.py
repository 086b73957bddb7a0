"""Parses pages of the documentation into the blocks that a test runs.

Blocks run unchanged, in the order of the page, unless an HTML comment before the block says otherwise:

    <!-- run: skip REASON -->       not run
    <!-- run: needs THING, THING -->  run only where these are there: network, gpu, docker, node, a Python package
    <!-- run: server -->            keeps running in the background; the next block runs once it is ready
    <!-- run: beside -->            the same, in another terminal: the server before it keeps running
    <!-- run: server: COMMAND -->   the same, with another command in its place (`make run` would install again)
    <!-- run: instead: COMMAND -->  another command in its place
    <!-- run: fails -->             ends with an error
    <!-- run: file NAME -->         is the content of this file
    <!-- run: output -->            is the output of the block before it; `...` matches any text
    <!-- run: input: LINES -->      a person types these
    <!-- run: with: ID=COMMAND -->  the output of the command replaces the id of the page; one per line

These belong to no block:

    <!-- run: first: COMMANDS -->   prepares what a reader already has, such as a folder of papers
    <!-- run: meanwhile: COMMAND -->  a server that the page expects to run
    <!-- run: sample -->            the reader's home has the sample library, as `make run` fills it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/tutorial.md", *sorted(f"docs/how-to/{e.name}" for e in (ROOT / "docs/how-to").glob("*.md"))]
SHELL, PYTHON, NODE = ("sh", "bash", "console"), ("python",), ("js",)
RUNNABLE = (*SHELL, *PYTHON, *NODE)
_ALONE = ("first", "meanwhile", "sample")
_KINDS = ("skip", "needs", "server", "beside", "instead", "fails", "file", "output", "input", "with", *_ALONE)
_MARK = re.compile(rf"<!-- run: ({'|'.join(_KINDS)})\b:?\s*(.*?)\s*-->", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True, slots=True)
class Block:
    """`kind` is the first word of its mark, "run" if it has none; `argument` is what follows in the mark."""

    line: int
    language: str
    text: str
    kind: str = "run"
    argument: str = ""


def blocks_of(text: str) -> list[Block]:
    """Raises ValueError for a mark that no block follows, and for a block that is neither run nor marked."""
    return list(_blocks(_MARKDOWN.parse(text)))


def _blocks(tokens: list[Token]) -> Iterator[Block]:
    mark: tuple[int, str, str] | None = None
    for token in tokens:
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block" and "<!-- run:" in token.content:
            found = _MARK.fullmatch(token.content.strip())
            if found is None:
                raise ValueError(f"line {line}: not a mark: {token.content.strip()}")
            if found[1] in _ALONE:
                yield Block(line, "sh", found[2] + "\n", found[1])
            elif mark is not None:
                raise ValueError(f"line {mark[0]}: no block follows this mark")
            else:
                mark = (line, found[1], found[2])
        elif token.type == "code_block":
            raise ValueError(f"line {line}: an indented block has no language; write a fence")
        elif token.type == "fence":
            yield _block(line, token, mark)
            mark = None
    if mark is not None:
        raise ValueError(f"line {mark[0]}: no block follows this mark")


def _block(line: int, token: Token, mark: tuple[int, str, str] | None) -> Block:
    language = token.info.strip()
    if mark is None:
        if language not in RUNNABLE:
            raise ValueError(f"line {line}: a block of “{language}” is not run: mark it as file, output or skip")
        return Block(line, language, token.content)
    _, kind, argument = mark
    if kind in ("skip", "needs", "file", "input", "with") and not argument:
        raise ValueError(f"line {line}: the mark {kind} says nothing further")
    return Block(line, language, token.content, kind, argument)


def unrendered_tables(text: str) -> list[int]:
    """Lines that were written as the row of a table and are shown as text, counted from 1."""
    inside: set[int] = set()
    for token in _MARKDOWN.parse(text):
        if token.type in ("table_open", "fence", "code_block", "html_block") and token.map:
            inside.update(range(*token.map))
    return [
        number + 1
        for number, line in enumerate(text.splitlines())
        if line.lstrip(" >").startswith("|") and number not in inside
    ]
