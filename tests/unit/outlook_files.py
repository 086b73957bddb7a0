"""Messages of Outlook, written as compound files of version 3: a directory, a mini stream, and their tables."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import count, pairwise

Tree = Mapping[str, "bytes | Tree"]

_SECTOR, _MINI = 512, 64
_END, _FREE, _FAT, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF
_TEXT, _NARROW_TEXT, _BINARY, _TIME, _LONG = 0x001F, 0x001E, 0x0102, 0x0040, 0x0003


def outlook_message(
    subject: str,
    *,
    body: str = "",
    html: bytes = b"",
    rich_text: bytes = b"",
    code_page: int = 0,
    sender: str = "ada@example.org",
    attachments: Mapping[str, bytes | Tree] | None = None,
) -> bytes:
    """`attachments` by name: bytes, or a message as `storage` gives it."""
    properties: dict[int, str | bytes | int] = {0x0037: subject, 0x0C1A: "Ada", 0x0C1F: sender, 0x001A: "IPM.Note"}
    if body:
        properties[0x1000] = body
    if html:
        properties[0x1013] = html
    if code_page:
        properties[0x3FDE] = code_page
    if rich_text:
        properties[0x1009] = rich_text
    tree: dict[str, bytes | Tree] = dict(storage(properties, header=32))
    tree["__recip_version1.0_#00000000"] = storage({0x3001: "Bob", 0x39FE: "bob@example.org"}, header=8)
    for number, (name, data) in enumerate((attachments or {}).items()):
        if isinstance(data, bytes):
            attached: dict[str, bytes | Tree] = dict(storage({0x3707: name, 0x3701: data}, header=8))
        else:
            attached = {**storage({0x3707: name}, header=8), "__substg1.0_3701000D": data}
        tree[f"__attach_version1.0_#{number:08X}"] = attached
    return compound_file(tree)


def storage(properties: Mapping[int, str | bytes | int], *, header: int, code_page: str = "") -> dict[str, bytes]:
    """The properties of a message or of a part of one, by number. With `code_page` its texts are 8-bit texts."""
    streams, table = {}, b"\0" * header
    for number, value in properties.items():
        if isinstance(value, int):
            table += struct.pack("<HHIII", _LONG, number, 6, value, 0)
            continue
        kind, data = (_TEXT, value.encode("utf-16-le")) if isinstance(value, str) else (_BINARY, value)
        if code_page and isinstance(value, str):
            kind, data = _NARROW_TEXT, value.encode(code_page)
        streams[f"__substg1.0_{number:04X}{kind:04X}"] = data
        table += struct.pack("<HHIII", kind, number, 6, len(data) + (2 if kind == _TEXT else 0), 0)
    return {**streams, "__properties_version1.0": table}


def compound_file(tree: Tree) -> bytes:
    entries: list[dict[str, object]] = [{"name": "Root Entry", "kind": 5}]
    mini, chains = b"", []

    def add(children: Tree) -> int:
        """The entry of the first; each of the others is the right one of the one before."""
        nonlocal mini
        numbers = []
        for name, content in sorted(children.items(), key=lambda each: (len(each[0]), each[0].upper())):
            entry: dict[str, object] = {"name": name, "kind": 2 if isinstance(content, bytes) else 1}
            numbers.append(len(entries))
            entries.append(entry)
            if isinstance(content, bytes):
                blocks = -(-len(content) // _MINI)
                first = len(mini) // _MINI
                entry |= {"start": first if blocks else _END, "size": len(content)}
                chains.extend([*range(first + 1, first + blocks), _END] if blocks else [])
                mini += content.ljust(blocks * _MINI, b"\0")
            else:
                entry["child"] = add(content)
        for number, right in pairwise(numbers):
            entries[number]["right"] = right
        return numbers[0] if numbers else _NONE

    entries[0]["child"] = add(tree)
    directory_count = -(-len(entries) * 128 // _SECTOR)
    mini_table = struct.pack(f"<{len(chains)}I", *chains)
    table_count = -(-len(mini_table) // _SECTOR)
    mini_count = -(-len(mini) // _SECTOR)
    fat_count = next(each for each in count(1) if each * 128 >= each + directory_count + table_count + mini_count)
    starts = [fat_count, fat_count + directory_count, fat_count + directory_count + table_count]
    entries[0] |= {"start": starts[2] if mini else _END, "size": len(mini)}
    fat = [_FAT] * fat_count
    for start, length in zip(starts, (directory_count, table_count, mini_count), strict=True):
        fat += [*range(start + 1, start + length), _END] if length else []
    fat += [_FREE] * (fat_count * 128 - len(fat))
    header = struct.pack(
        "<8s16sHHHHHHIIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"", 0x3E, 3, 0xFFFE, 9, 6, 0, 0, 0, fat_count, starts[0], 0, 4096,
        starts[1] if table_count else _END, table_count, _END, 0,
    )  # fmt: skip
    header += struct.pack("<109I", *range(fat_count), *[_FREE] * (109 - fat_count))
    directory = b"".join(map(_entry, entries)).ljust(directory_count * _SECTOR, b"\0")
    sectors = struct.pack(f"<{len(fat)}I", *fat) + directory
    return header + sectors + mini_table.ljust(table_count * _SECTOR, b"\xff") + mini.ljust(mini_count * _SECTOR, b"\0")


def _entry(entry: Mapping[str, object]) -> bytes:
    name = f"{entry['name']}\0".encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII16sIQQIII",
        name, len(name), entry["kind"], 1, _NONE, entry.get("right", _NONE), entry.get("child", _NONE), b"", 0, 0, 0,
        entry.get("start", 0), entry.get("size", 0), 0,
    )  # fmt: skip
