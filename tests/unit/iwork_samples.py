"""Documents of Pages, Numbers and Keynote, as they are since 2013: compressed streams of protocol buffers."""

from __future__ import annotations

import struct
from decimal import Decimal

from sample_files import zip_of

Value = int | str | bytes


def number_of(value: int) -> bytes:
    """A number of variable length."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def buffer(*fields: tuple[int, Value]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += number_of(number << 3) + number_of(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += number_of(number << 3 | 2) + number_of(len(data)) + data
    return out


def double(number: int, value: float) -> bytes:
    return number_of(number << 3 | 1) + struct.pack("<d", value)


def link(number: int) -> bytes:
    return buffer((1, number))


def snapped(data: bytes) -> bytes:
    """A block of Snappy: literals, and one reference for a run of equal bytes at its end."""
    run = len(data) - len(data.rstrip(data[-1:]))
    rest = data if run < 5 else data[: 1 - run]
    out = number_of(len(data))
    for at in range(0, len(rest), 60):
        piece = rest[at : at + 60]
        out += bytes([len(piece) - 1 << 2]) + piece
    left = len(data) - len(rest)
    while left:
        length = min(left, 64)
        out += bytes([length - 1 << 2 | 2]) + struct.pack("<H", 1)
        left -= length
    return out


def stream(*objects: tuple[int, int, bytes]) -> bytes:
    """A file of objects: number, type, content."""
    data = b""
    for number, kind, content in objects:
        info = buffer((1, number), (2, buffer((1, kind), (3, len(content)))))
        data += number_of(len(info)) + info + content
    out = b""
    for at in range(0, len(data), 65_536):
        packed = snapped(data[at : at + 65_536])
        out += b"\0" + len(packed).to_bytes(3, "little") + packed
    return out


def text(words: str, kind: int = 0) -> bytes:
    return buffer((1, kind), (3, words))


def cell(kind: int, flag: int, value: bytes) -> bytes:
    return bytes([5, kind, 0, 0, 0, 0, 0, 0]) + struct.pack("<I", flag) + value


def decimal(value: str) -> bytes:
    sign, digits, exponent = Decimal(value).as_tuple()
    bits = sign << 127 | int(exponent) + 0x1820 << 113 | int("".join(map(str, digits)))
    return bits.to_bytes(16, "little")


def table(first: int, name: str, texts: list[str], rows: list[list[bytes]]) -> list[tuple[int, int, bytes]]:
    """The objects of a table: `first` is its number, and those of the others follow it."""
    infos = []
    for at, cells in enumerate(rows):
        offsets, stored = b"", b""
        for each in cells:
            offsets += struct.pack("<H", len(stored)) if each else b"\xff\xff"
            stored += each
        infos.append((5, buffer((1, at), (6, stored), (7, offsets))))
    entries = [(3, buffer((1, key), (3, words))) for key, words in enumerate(texts, 1)]
    tiles = buffer((1, buffer((1, 0), (2, link(first + 2)))), (2, 256))
    store = buffer((3, tiles), (4, link(first + 3)))
    model = buffer((4, store), (6, len(rows)), (7, max(map(len, rows))), (8, name))
    return [
        (first, 6000, buffer((2, link(first + 1)))),
        (first + 1, 6001, model),
        (first + 2, 6002, buffer(*infos)),
        (first + 3, 6005, buffer(*entries)),
    ]


def pages(*more: tuple[int, int, bytes], files: dict[str, bytes] | None = None) -> bytes:
    body = (2, 2001, text("The pump\nopens\u2028slowly.\ufffc"))
    objects = [(3, 2001, text("See the manual.", 2)), (4, 2001, text("A box", 3)), body, *more]
    root = (1, 10_000, buffer((4, link(2)), (9, "no reference")))
    return zip_of({"Index/Document.iwa": stream(root, *objects), **(files or {})})


def keynote(*slides: str) -> bytes:
    """Slides with this title each, the last one stored first."""
    files = {}
    nodes = []
    for at, title in reversed(list(enumerate(slides))):
        first = 100 * (at + 1)
        shape = buffer((1, buffer((4, link(first + 3)))))
        files[f"Index/Slide-{at}.iwa"] = stream(
            (first + 4, 2001, text(f"Words {at}", 4 if at else 0)),
            (first + 3, 2001, text(title)),
            (first + 1, 5, buffer((5, link(first + 2)))),
            (first + 2, 7, shape),
        )
        nodes.append((first, 4, buffer((2, link(first + 1)))))
    tree = buffer(*((2, link(100 * (at + 1))) for at in range(len(slides))))
    show = (2, 2, buffer((3, tree)))
    files["Index/MasterSlide.iwa"] = stream((50, 2001, text("unseen")))
    files["Index/Document.iwa"] = stream((1, 1, buffer((2, link(2)))), show, *nodes)
    return zip_of({"Deck.key/Index.zip": zip_of(files), "Deck.key/Metadata/Properties.plist": b"bplist00"})
