"""Markdown and similar markup: the text as it is written. Front matter (YAML or TOML) becomes the title, metadata and
a record of its other fields."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, time
from itertools import chain
from typing import Any, BinaryIO

import yaml

from app.types.documents import MetadataValue
from ingest.readers.limits import ReadLimits
from ingest.readers.package import iso_date
from ingest.readers.parts import PART_CHARACTERS, Opened, Piece
from ingest.readers.payloads import Payloads
from ingest.readers.records import Records
from ingest.readers.tables import block_pieces
from ingest.readers.text import decoded, without_payloads
from ingest.titles import declared_title

_LONGEST = 50_000  # characters of front matter
_MATTER = re.compile(
    r"\A\s*(?P<sign>---|\+\+\+)[ \t]*\n(?P<body>.*?)^(?:(?P=sign)|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL
)
_FIELD = re.compile(r"^[\w\"'].*[:=]", re.MULTILINE)  # else it is a text between two rules
# Names of fields → the key of the metadata.
_METADATA = {
    **dict.fromkeys(("author", "authors"), "author"),
    **dict.fromkeys(("date", "created", "published", "pubdate"), "created"),
    **dict.fromkeys(("modified", "updated", "lastmod", "last_modified", "last-modified"), "modified"),
    **dict.fromkeys(("tags", "keywords"), "tags"),
    **dict.fromkeys(("lang", "language"), "language"),
}
_ALSO_SHOWN = ("tags",)  # which people search by words, too


def read_markup(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
    """Opens Markdown and similar formats. Front matter is searched in the first part; one that is damaged stays."""
    read = decoded(stream, charset)
    texts = without_payloads(read)
    head: list[str] = []
    while sum(map(len, head)) < PART_CHARACTERS and (text := next(texts, None)) is not None:
        head.append(text)
    begin = "".join(head)
    title = declared_title(begin)
    matter = _MATTER.match(begin, 0, _LONGEST)
    fields = _parsed(matter) if matter else {}
    if matter is None or not fields:
        return Opened(title, read.metadata, map(Piece, chain([begin], texts)))
    read.metadata.update(_metadata_of(fields))
    shown = {name: value for name, value in fields.items() if _is_shown(name, value)}
    record = list(block_pieces(Records(Payloads()).of(shown, "")))
    rest = begin[matter.end() :].lstrip("\n")
    gap = [Piece("\n\n")] if any(piece.text for piece in record) and rest else []
    declared = fields.get("title", fields.get("Title"))
    title = declared if isinstance(declared, str) and declared.strip() else title
    return Opened(title, read.metadata, chain(record, gap, map(Piece, chain([rest], texts))))


class _Loader(yaml.BaseLoader):
    """Keeps values as they are written. Refuses aliases, with which a short text can grow without limit."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def _parsed(matter: re.Match[str]) -> dict[str, object]:
    """The fields; empty for damaged front matter, and for a text between two rules."""
    body = matter["body"]
    if not _FIELD.search(body):
        return {}
    try:
        fields = tomllib.loads(body) if matter["sign"] == "+++" else yaml.load(body, _Loader)  # noqa: S506 (builds texts)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, TypeError, RecursionError):
        return {}
    return {str(name): _as_written(value) for name, value in fields.items()} if isinstance(fields, dict) else {}


def _as_written(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _as_written(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_written(each) for each in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _is_shown(name: str, value: object) -> bool:
    """Whether a field is in the record: one that title and metadata do not hold, or not wholly, such as addresses."""
    key = _METADATA.get(name.lower())
    if name.lower() == "title":
        return not isinstance(value, str)
    has_more = any(isinstance(each, Mapping) for each in (value if isinstance(value, list) else [value]))
    return key is None or key in _ALSO_SHOWN or has_more


def _metadata_of(fields: Mapping[str, object]) -> Iterator[tuple[str, MetadataValue]]:
    for name, value in fields.items():
        key = _METADATA.get(name.lower())
        if key is None:
            continue
        text = ", ".join(filter(None, map(_named, value if isinstance(value, list) else [value])))
        if key in ("created", "modified"):
            text = iso_date(text)
        if text:
            yield key, text


def _named(value: Any) -> str:
    """The text of a value; of a person with an address, the name."""
    if isinstance(value, Mapping):
        value = value.get("name", "")
    return " ".join(value.split()) if isinstance(value, str) else ""
