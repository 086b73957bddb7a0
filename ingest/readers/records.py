"""JSON and JSON lines: each record becomes a paragraph of `key: value`, with dotted keys for nested objects."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.errors import too_deep
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Block, Opened
from ingest.readers.payloads import Payloads
from ingest.readers.skipped import Skipped
from ingest.readers.tables import block_pieces, join_blocks, record_block, render_fields
from ingest.readers.text import decode_text, decoded, lines_of

_MOST_BAD_LINES = 100  # before the first good one
_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = r'(?P<text>"(?:[^"\\]++|\\.?)*+(?:"|\Z))'
# Comments and commas after a last item, which settings of programs have. Strings are matched to be kept, and what is
# open to the end of the text, so that it is not searched again and again.
_COMMENTS = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/|(?P<open>/\*.*)", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?P<end>\s*[}\]])", re.DOTALL)
_TITLE_KEYS = ("title", "name", "headline")


def read_json(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    decoded = decode_text(data, charset)
    value = _parse(decoded.text, "This JSON")
    title = next((str(value[key]) for key in _TITLE_KEYS if value.get(key)), "") if isinstance(value, dict) else ""
    payloads = Payloads()
    text, marks, cells = join_blocks(Records(payloads).of(value, ""), limits)
    metadata = payloads.skipped.added_to(decoded.metadata)
    return ExtractedText(text, title, "application/json", metadata, marks=marks, cells=cells)


def read_json_lines(stream: BinaryIO, limits: ReadLimits, charset: str) -> Opened:
    """Opens JSON lines. Invalid lines are skipped and noted; raises DocumentError if all are invalid."""
    texts = decoded(stream, charset)
    metadata, skipped, payloads = texts.metadata, Skipped("lines"), Payloads()

    def records() -> Iterator[Block]:
        good = 0
        for number, line in enumerate(lines_of(texts), start=1):
            if not line.strip():
                continue
            try:
                value = _parse(line, f"Line {number:,}")
            except DocumentError as error:
                skipped.note(f"Line {number}", f"It is not valid JSON ({error.__cause__ or error}).")
                if not good and len(skipped) >= _MOST_BAD_LINES:
                    raise  # not JSON lines
                continue
            good += 1
            yield from Records(payloads, f"Line {number}").of(value, "")
        if not good and skipped:
            raise DocumentError(f"None of its lines can be read. {skipped.reasons}")
        metadata.update(payloads.skipped.added_to(skipped.metadata))

    return Opened("", metadata, block_pieces(records()))


def _parse(text: str, what: str) -> object:
    """The value; of several values in a row, a list. Numbers are strings as written: 1.10 is not 1.1."""
    try:
        try:
            values = _values(text)
        except ValueError:
            without_comments = _COMMENTS.sub(lambda match: match["text"] or match["open"] or "", text)
            values = _values(_LAST_COMMA.sub(lambda match: match["text"] or match["end"], without_comments))
    except RecursionError:
        raise too_deep("JSON") from None
    except ValueError as error:
        raise DocumentError(f"{what} cannot be read ({error}). Check it with a JSON validator and fix it.") from error
    return values[0] if len(values) == 1 else values


_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: _with_repeated_keys(pairs), parse_float=str, parse_int=str)


def _values(text: str) -> list[object]:
    values: list[object] = []
    end = _BLANKS.match(text).end()  # type: ignore[union-attr]
    while end < len(text) or not values:
        value, end = _DECODER.raw_decode(text, end)
        values.append(value)
        end = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
    return values


def _with_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object. Of a key that it has more than once, all values are kept, in a list."""
    record = dict(pairs)
    if len(record) < len(pairs):
        for key, times in Counter(key for key, _ in pairs).items():
            if times > 1:
                record[key] = [value for name, value in pairs if name == key]
    return record


class Records:
    """The records within a value as blocks. `place` names it in notes about what is left out; without it, keys do."""

    def __init__(self, payloads: Payloads, place: str = "") -> None:
        self._payloads = payloads
        self._place = place

    def of(self, value: object, name: str) -> Iterator[Block]:
        if isinstance(value, list):
            if all(_is_scalar(item) for item in value):
                for item in value:
                    yield from render_fields([(name, self._text(item, name))])
                return
            for item in value:
                yield from self.of(item, name)
        elif isinstance(value, dict):
            fields: list[tuple[str, str]] = []
            lists: list[tuple[str, list[object]]] = []
            self._sort_out(value, name, fields, lists)
            record = record_block(fields)
            if record.text:
                yield record
            for path, items in lists:
                yield from self.of(items, path)
        else:
            yield from render_fields([(name, self._text(value, name))])

    def _sort_out(
        self, value: dict[str, object], name: str, fields: list[tuple[str, str]], lists: list[tuple[str, list[object]]]
    ) -> None:
        """Splits an object into the fields of its record, with dotted keys, and nested lists of records."""
        for key, item in value.items():
            key = " ".join(key.split())
            path = f"{name}.{key}" if name else key
            if isinstance(item, dict):
                self._sort_out(item, path, fields, lists)
            elif isinstance(item, list) and not all(map(_is_scalar, item)):
                lists.append((path, item))
            elif isinstance(item, list):
                fields.append((path, ", ".join(filter(None, (self._text(each, path) for each in item)))))
            else:
                fields.append((path, self._text(item, path)))

    def _text(self, value: object, path: str) -> str:
        if isinstance(value, str):
            return self._payloads.without(value, self._place or path or "Line 1")
        return "" if value is None else json.dumps(value)


def _is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)
