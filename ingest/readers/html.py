"""HTML: the text that a browser shows, with headings, tables and menus marked, and the metadata of the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import lxml.html
from lxml.etree import ErrorTypes, ParserError

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.errors import too_deep
from ingest.readers.html_blocks import blocks_of
from ingest.readers.html_depth import flattened
from ingest.readers.limits import ReadLimits
from ingest.readers.package import iso_date
from ingest.readers.parts import Block
from ingest.readers.tables import join_blocks
from ingest.readers.text import WholeText, decode_text
from ingest.titles import choose_title

_DECLARED_CHARSET = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_HEAD_BYTES = 64_000
_META_NAMES = {
    "author": {"author", "dc.creator", "dcterms.creator", "citation_author", "article:author"},
    "created": {"article:published_time", "dc.date", "dcterms.created", "citation_publication_date", "date"},
    "modified": {"article:modified_time", "og:updated_time", "dcterms.modified", "last-modified"},
}
_LINKED_DATA = {"created": "datePublished", "modified": "dateModified"}
_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f]")  # lxml cannot serialise these


def read_html(data: bytes, limits: ReadLimits, charset: str) -> ExtractedText:
    decoded = _decoded(data, charset)
    tree = _parse(decoded.text)
    title, metadata = _title(tree), _declared(tree)  # before invisible elements are removed
    blocks = blocks_of(tree)
    text, marks, cells = join_blocks(blocks, limits)
    headings = [block.text for block in blocks if block.level in range(1, 7)]
    first = [block.text for block in blocks if block.level == 1][:1]
    title = choose_title([*first, title, *headings])
    metadata |= decoded.metadata
    return ExtractedText(text, title=title, media_type="text/html", metadata=metadata, marks=marks, cells=cells)


def read_body(data: bytes) -> list[Block]:
    """The blocks of a page without metadata, such as a chapter of a book."""
    return blocks_of(_parse(_decoded(data, "").text))


def _decoded(data: bytes, charset: str) -> WholeText:
    head = _without_comments(data[:_HEAD_BYTES])
    match = _DECLARED_CHARSET.search(head)
    inner = match[1].decode("ascii") if match else ""
    if inner.lower().startswith("utf-16"):  # the declaration was readable as ASCII, so it is wrong
        inner = "utf-8"
    xml = _XML_ENCODING.match(head)
    return decode_text(data, charset, inner, xml[1].decode("ascii") if xml else "")


def _without_comments(head: bytes) -> bytes:
    first, *others = head.split(b"<!--")
    return first + b"".join(other.partition(b"-->")[2] for other in others)


def _parse(text: str) -> lxml.html.HtmlElement:
    markup = _CONTROLS.sub("", text)
    tree, is_too_deep = _tree(markup)
    if is_too_deep:
        tree, is_too_deep = _tree(flattened(markup))
    if is_too_deep:
        raise too_deep("HTML")
    return tree


def _tree(markup: str) -> tuple[lxml.html.HtmlElement, bool]:
    """The tree, and whether the parser dropped content because elements are nested too deeply."""
    parser = lxml.html.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        tree = lxml.html.document_fromstring(markup.encode("utf-8"), parser=parser)
    except ParserError as error:
        raise DocumentError(f"This HTML holds no elements ({error}). Check that the page was saved whole.") from error
    return tree, any(error.type == ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log)


def _title(tree: lxml.html.HtmlElement) -> str:
    for element in tree.iter("title", "h1"):
        title = " ".join(element.text_content().split())
        if title:
            return title
    return ""


def _declared(tree: lxml.html.HtmlElement) -> dict[str, MetadataValue]:
    """Author and dates from `meta` elements, else from linked data (JSON-LD)."""
    metadata: dict[str, MetadataValue] = {}
    for meta in tree.iter("meta"):
        name = (meta.get("property") or meta.get("name") or meta.get("http-equiv") or "").lower()
        content = " ".join((meta.get("content") or "").split())
        for key, names in _META_NAMES.items():
            value = content if key == "author" else iso_date(content)
            if name in names and value:
                metadata.setdefault(key, value)
    for item in _linked_data(tree):
        author = item.get("author")
        author = author[0] if isinstance(author, list) and author else author
        name = author.get("name") if isinstance(author, dict) else author
        if isinstance(name, str) and name.strip():
            metadata.setdefault("author", " ".join(name.split()))
        for key, name in _LINKED_DATA.items():
            if value := iso_date(str(item.get(name, ""))):
                metadata.setdefault(key, value)
    return metadata


def _linked_data(tree: lxml.html.HtmlElement) -> Iterator[dict[str, Any]]:
    for script in tree.iter("script"):
        if script.get("type", "").lower() != "application/ld+json":
            continue
        try:
            value = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        graph = value.get("@graph", [value]) if isinstance(value, dict) else value
        yield from (item for item in graph if isinstance(item, dict)) if isinstance(graph, list) else ()
