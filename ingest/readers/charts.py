"""Charts become a title and a table of categories and series; SmartArt becomes its texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ingest.readers.cell_dates import EPOCH, EPOCH_1904
from ingest.readers.cell_values import formatted_value, shown_number
from ingest.readers.opc import Element, attribute, first, is_on
from ingest.readers.parts import Block
from ingest.readers.tables import record_block

_MAX_POINTS = 100_000


def chart_blocks(root: Element) -> Iterator[Block]:
    series = list(root.iter("{*}ser"))
    texts = [text for paragraph in root.iter("{*}p") if (text := _text_of(paragraph))]
    heading = first(root, "chart", "title")
    title = " ".join(() if heading is None else filter(None, map(_text_of, heading.iter("{*}p"))))
    if title:
        yield Block(f"Chart: {title}")
    others = [text for text in texts if text not in title]
    if others:  # axes and labels
        yield Block("\n".join(dict.fromkeys(others)))
    epoch = EPOCH_1904 if is_on(first(root, "date1904")) else EPOCH
    named = [(_name(one), _points(one, epoch, "cat", "xVal"), _points(one, epoch, "val", "yVal")) for one in series]
    sizes = [_points(one, epoch, "bubbleSize") for one in series]
    categories = max((points for _, points, _ in named), key=len, default={})
    names = [name or f"Series {number}" for number, (name, _, _) in enumerate(named, start=1)]
    values = [(name, points) for name, (_, _, points) in zip(names, named, strict=True)]
    bubbles = [(f"{name} (size)", points) for name, points in zip(names, sizes, strict=True)]
    yield from point_blocks(categories, [*values, *bubbles])
    if not series:  # charts since Office 2016 use other element names
        cached = [(point.text or "").strip() for point in root.iter("{*}pt", "{*}v")]
        if any(cached):
            yield Block("; ".join(filter(None, map(shown_number, cached))))


def point_blocks(categories: Mapping[int, str], columns: Sequence[tuple[str, Mapping[int, str]]]) -> Iterator[Block]:
    """A record for each point of a chart, from the values of its series by the number of the point."""
    shown: dict[int, list[tuple[int, str, str]]] = {key: [(0, "Category", text)] for key, text in categories.items()}
    for column, (name, points) in enumerate(columns, start=1):
        for key, value in points.items():
            shown.setdefault(key, []).append((column, name, value))
    for _, fields in sorted(shown.items()):
        yield record_block([(name, value) for _, name, value in fields], [column for column, _, _ in fields])


def diagram_blocks(root: Element) -> Iterator[Block]:
    for point in root.iter("{*}pt"):
        if attribute(point, "type") not in ("pres", "parTrans", "sibTrans"):
            text = "\n".join(filter(None, map(_text_of, point.iter("{*}p"))))
            if text:
                yield Block(text)


def _text_of(paragraph: Element) -> str:
    return "".join(run.text or "" for run in paragraph.iter("{*}t")).strip()


def _name(series: Element) -> str:
    text = first(series, "tx")
    return "" if text is None else " ".join(shown_number(value.text or "") for value in text.iter("{*}v")).strip()


def _points(series: Element, epoch: datetime, *names: str) -> dict[int, str]:
    """Values by index. For categories with several levels, outer levels come first: `2024 Q1`."""
    data = next((node for name in names if (node := first(series, name)) is not None), None)
    points: dict[int, str] = {}
    if data is None:
        return points
    code = next((node.text or "" for node in data.iter("{*}formatCode")), "")
    levels = list(data.iter("{*}lvl")) or [data]
    for level in levels:
        for point in level.iter("{*}pt"):
            index = attribute(point, "idx")
            value = first(point, "v")
            if index.isdecimal() and value is not None and len(points) < _MAX_POINTS:
                text = formatted_value(value.text or "", attribute(point, "formatCode") or code, epoch)
                points[int(index)] = f"{text} {points[int(index)]}" if int(index) in points else text
    return points
