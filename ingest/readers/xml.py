"""XML of any vocabulary: prose as paragraphs, records as `name: value`. Entities and DTDs from outside are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Block
from ingest.readers.tables import join_blocks, render_fields
from ingest.readers.text import clean_text, decode_text

_DECLARED_ENCODING = re.compile(rb"""\A\s{0,100}<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
# Elements of running text in the common vocabularies: their names would only be noise.
_PROSE = {"p", "para", "simpara", "paragraph", "l", "li"}


def read_xml(data: bytes, limits: ReadLimits) -> ExtractedText:
    root = parse_xml(data)
    title = next((_joined(element) for element in root.iter() if _name(element) == "title"), "")
    text = join_blocks(_paragraphs(root), limits).text
    return ExtractedText(text, title=title, media_type="application/xml")


def parse_xml(data: bytes) -> Element:
    declared = _DECLARED_ENCODING.match(data)
    text = clean_text(decode_text(data, declared=declared.group(1).decode("ascii") if declared else None))
    try:
        return fromstring(text.lstrip())
    except DefusedXmlException as error:
        raise DocumentError(
            f"This XML declares entities, which could read files or fill the memory ({type(error).__name__}). "
            "Save it with its entities resolved."
        ) from error


def _paragraphs(element: Element) -> Iterator[Block]:
    children = [child for child in element if isinstance(child.tag, str)]
    if not children or _is_mixed(element):
        yield from _rendered([(_name(element), _joined(element)), *_attributes(element)])
        return
    fields = _attributes(element)
    for child in children:
        if len(child) == 0:
            fields += [(_name(child), _joined(child)), *_attributes(child)]
            continue
        yield from _rendered(fields)
        fields = []
        yield from _paragraphs(child)
    yield from _rendered(fields)


def _rendered(fields: list[tuple[str, str]]) -> Iterator[Block]:
    record: list[tuple[str, str]] = []
    for name, value in fields:
        if name in _PROSE:
            yield from render_fields(record)
            record = []
            if value:
                yield Block(value)
        else:
            record.append((name, value))
    yield from render_fields(record)


def _is_mixed(element: Element) -> bool:
    """Whether text stands between the children, as around an emphasised word."""
    texts = [element.text, *(child.tail for child in element)]
    return any(text and text.strip() for text in texts)


def _attributes(element: Element) -> list[tuple[str, str]]:
    # Names with a namespace are for machines, as xsi:schemaLocation.
    return [(name, value) for name, value in element.attrib.items() if not name.startswith("{")]


def _joined(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
