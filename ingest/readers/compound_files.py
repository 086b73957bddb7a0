"""Compound files ([MS-CFB]), written anew: an embedded object is a folder in its document's file, and its reader needs
a file."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import olefile

Tree: TypeAlias = Mapping[str, "bytes | Tree"]  # the streams and folders of a folder

_SECTOR, _SHORT_SECTOR = 512, 64
_SHORT = 4096  # shorter streams stand in one stream together
_END, _FREE, _TABLE, _TABLE_LIST, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFC, 0xFFFFFFFF
_NUMBERS = _SECTOR // 4
_IN_HEAD, _IN_LIST = 109, _NUMBERS - 1  # sectors of the table that the head and each sector of its list name
_ENTRY = 128  # bytes
_FOLDER, _STREAM, _ROOT = 1, 2, 5


class _Entry(NamedTuple):
    name: str
    content: bytes | Tree


def folder_of(
    compound: olefile.OleFileIO, path: list[str], most: int, places: Iterable[list[str]] | None = None
) -> Tree:
    """The streams and folders below `path`, of all or of these places of streams. Raises ValueError if they have more
    than `most` bytes: damaged files name the same bytes again and again."""
    tree: dict[str, bytes | Tree] = {}
    for place in compound.listdir() if places is None else places:
        if place[: len(path)] != path:
            continue
        most -= compound.get_size(place)
        if most < 0:
            raise ValueError("The streams are longer than their file.")
        folder = tree
        for name in place[len(path) : -1]:
            inner = folder.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name!r} is a stream and a folder.")
            folder = inner
        with compound.openstream(place) as stream:
            folder[place[-1]] = stream.read()
    return tree


def compound_file(tree: Tree) -> bytes:
    """A compound file of these streams and folders."""
    entries, links = _listed(tree)
    shorts, short_table = bytearray(), list[int]()
    longs = list[bytes]()
    places = dict[int, tuple[int, int]]()  # entry → its first sector or short sector, and its size
    for number, entry in enumerate(entries):
        content = entry.content
        if not isinstance(content, bytes):
            continue
        if len(content) >= _SHORT:
            places[number] = (len(longs), len(content))
            longs.append(content)
            continue
        count = -(-len(content) // _SHORT_SECTOR)
        places[number] = (len(short_table) if count else _END, len(content))
        short_table += _chain(len(short_table), count)
        shorts += content.ljust(count * _SHORT_SECTOR, b"\0")
    short_table += [_FREE] * (-len(short_table) % _NUMBERS)
    parts = [bytes(_ENTRY * len(entries)), _packed(short_table), bytes(shorts), *longs]
    counts = [-(-len(part) // _SECTOR) for part in parts]
    table_count, list_count = _table_size(sum(counts))
    table, starts = [_TABLE] * table_count + [_TABLE_LIST] * list_count, list[int]()
    for count in counts:
        starts.append(len(table) if count else _END)
        table += _chain(len(table), count)
    for number, (start, size) in places.items():
        places[number] = (starts[3 + start] if size >= _SHORT else start, size)
    places[0] = (starts[2], len(shorts))
    parts[0] = b"".join(_entry(entries[at], links[at], *places.get(at, (0, 0)), at == 0) for at in range(len(entries)))
    head = struct.pack(
        "<8s16sHHHHH6xIIIIIIIII",
        bytes.fromhex("d0cf11e0a1b11ae1"), b"", 0x3E, 3, 0xFFFE, 9, 6, 0, table_count, starts[0], 0, _SHORT,
        starts[1], counts[1], table_count if list_count else _END, list_count,
    )  # fmt: skip
    named = [*range(table_count), *[_FREE] * (_IN_HEAD + _IN_LIST * list_count - table_count)]
    lists = [
        [*named[_IN_HEAD + _IN_LIST * at : _IN_HEAD + _IN_LIST * (at + 1)], table_count + at + 1]
        for at in range(list_count)
    ]
    if lists:
        lists[-1][-1] = _END
    table += [_FREE] * (table_count * _NUMBERS - len(table))
    sectors = [head + _packed(named[:_IN_HEAD]), _packed(table), *map(_packed, lists), *parts]
    return b"".join(part.ljust(-(-len(part) // _SECTOR) * _SECTOR, b"\0") for part in sectors)


def _table_size(count: int) -> tuple[int, int]:
    """The sectors of a table of `count` sectors and its own, and those of the list of its sectors beyond the head's."""
    tables = lists = 0
    while tables * _NUMBERS < count + tables + lists:
        tables += 1
        lists = -(-max(0, tables - _IN_HEAD) // _IN_LIST)
    return tables, lists


def _packed(numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _chain(first: int, count: int) -> list[int]:
    """The table of so many sectors in a row."""
    return [*range(first + 1, first + count), _END] if count else []


def _listed(tree: Tree) -> tuple[list[_Entry], list[tuple[int, int, int]]]:
    """The entries of the directory, folder by folder, and of each its left, right and first inner entry."""
    entries = [_Entry("Root Entry", tree)]
    links = [(_NONE, _NONE, _NONE)]
    at = 0
    while at < len(entries):
        content = entries[at].content
        if not isinstance(content, bytes) and content:
            inner = sorted(content.items(), key=lambda item: (len(item[0]), item[0].upper()))
            first = len(entries)
            entries += [_Entry(name, each) for name, each in inner]
            links += [(_NONE, _NONE, _NONE)] * len(inner)
            links[at] = (*links[at][:2], _balanced(first, len(entries), links))
        at += 1
    return entries, links


def _balanced(begin: int, end: int, links: list[tuple[int, int, int]]) -> int:
    """Makes the sorted entries a balanced tree, and returns its root."""
    if begin >= end:
        return _NONE
    middle = (begin + end) // 2
    links[middle] = (_balanced(begin, middle, links), _balanced(middle + 1, end, links), links[middle][2])
    return middle


def _entry(entry: _Entry, links: tuple[int, int, int], start: int, size: int, is_root: bool) -> bytes:
    kind = _ROOT if is_root else _STREAM if isinstance(entry.content, bytes) else _FOLDER
    name = entry.name.encode("utf-16-le")[:62] + b"\0\0"
    return struct.pack("<64sHBB3I36xIQ", name, len(name), kind, 1, *links, start, size)
