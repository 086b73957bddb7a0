"""HTML: the main text by trafilatura, or the text of the whole body where it finds none. Fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import lxml.html
import trafilatura
from lxml.etree import ParserError

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ROW, ExtractedText
from ingest.readers.grids import render_rows
from ingest.readers.limits import ReadLimits
from ingest.readers.package import iso_date
from ingest.readers.parts import Block, moved
from ingest.readers.tables import join_blocks
from ingest.readers.text import clean_text, decode_text

_DECLARED_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 2048
_META_NAMES = {
    "author": {"author", "dc.creator", "dcterms.creator", "citation_author"},
    "created": {"article:published_time", "dc.date", "dcterms.created", "citation_publication_date", "date"},
    "modified": {"article:modified_time", "og:updated_time", "dcterms.modified", "last-modified"},
}
_INVISIBLE = "script|style|template|noscript|svg|head|iframe|object"
_BLOCKS = (
    "address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h1|h2|h3|h4|h5|h6|header|"
    "hr|li|main|nav|ol|option|p|pre|section|table|td|th|tr|ul"
)
_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f]")  # lxml writes none of them back
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r"\s*\n\s*")


def read_html(data: bytes, limits: ReadLimits) -> ExtractedText:
    tree = _parse(data)
    title = _title(tree)
    metadata = _declared(tree)
    told = _spell_out_tables(tree) | _headings(tree)
    main_text, found = _main_text(tree)
    blocks = list(_blocks(main_text or _body_text(tree), told))
    text, marks, cells = join_blocks(blocks, limits)
    title = next((block.text for block in blocks if block.level == 1), title)
    return ExtractedText(text, title=title, media_type="text/html", metadata=found | metadata, marks=marks, cells=cells)


def read_body(data: bytes) -> list[Block]:
    """All the text of a page that has nothing but its text, as a chapter of a book."""
    tree = _parse(data)
    told = _spell_out_tables(tree) | _headings(tree)
    return list(_blocks(_body_text(tree), told))


def _parse(data: bytes) -> lxml.html.HtmlElement:
    declared = _DECLARED_CHARSET.search(data, 0, _HEAD_BYTES)
    charset = declared.group(1).decode("ascii") if declared else None
    markup = _CONTROLS.sub("", clean_text(decode_text(data, declared=charset)))
    parser = lxml.html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        return lxml.html.document_fromstring(markup.encode("utf-8"), parser=parser)
    except ParserError as error:
        raise DocumentError(f"This HTML holds no elements ({error}). Check that the page was saved whole.") from error


def _title(tree: lxml.html.HtmlElement) -> str:
    for element in tree.iter("title", "h1"):
        title = " ".join(element.text_content().split())
        if title:
            return title
    return ""


def _main_text(tree: lxml.html.HtmlElement) -> tuple[str, dict[str, MetadataValue]]:
    found = trafilatura.bare_extraction(
        tree,
        include_comments=False,
        favor_recall=True,
        with_metadata=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    if found is None or isinstance(found, dict):
        return "", {}
    metadata: dict[str, MetadataValue] = {}
    if found.author:
        metadata["author"] = found.author
    if found.date:
        metadata["created"] = found.date
    # Every line is a block of the page: as a paragraph of its own it can begin a chunk.
    return _BLANK_LINES.sub("\n\n", clean_text(found.text or "")).strip(), metadata


def _declared(tree: lxml.html.HtmlElement) -> dict[str, MetadataValue]:
    """What the page says of itself in `meta` elements."""
    found: dict[str, MetadataValue] = {}
    for meta in tree.iter("meta"):
        name = (meta.get("property") or meta.get("name") or meta.get("http-equiv") or "").lower()
        content = " ".join((meta.get("content") or "").split())
        for key, names in _META_NAMES.items():
            value = content if key == "author" else iso_date(content)
            if name in names and value:
                found.setdefault(key, value)
    return found


def _headings(tree: lxml.html.HtmlElement) -> dict[str, Block]:
    """Each by its text."""
    headings = tree.iter("h1", "h2", "h3", "h4", "h5", "h6")
    texts = ((" ".join(each.text_content().split()), int(each.tag[1])) for each in headings)
    return {text: Block(text, level) for text, level in texts if text}


def _blocks(text: str, told: Mapping[str, Block]) -> Iterator[Block]:
    """Its paragraphs, with what is told of some by their text: what is a heading, or of a row, stands in the main text
    as it did in the page."""
    for paragraph in text.split("\n\n"):
        if paragraph.strip():
            found = told.get(" ".join(paragraph.split()), Block(paragraph))
            yield found if found.text == paragraph else Block(paragraph, found.level)


def _spell_out_tables(tree: lxml.html.HtmlElement) -> dict[str, Block]:
    """Tables with a row of headers become a paragraph per row, and each of these is told. Others are left: they may
    only lay out the page."""
    told: dict[str, Block] = {}
    for table in list(tree.iter("table")):
        rows = [row.xpath("./td|./th") for row in table.iter("tr")]
        is_simple = len(rows) > 1 and all(cell.tag == "th" for cell in rows[0]) and len(rows[0]) > 1
        spans = table.xpath(".//*[@rowspan > 1 or @colspan > 1]|.//table|ancestor::table")
        if not is_simple or spans:
            continue
        block = lxml.html.Element("div")
        for row in render_rows([cell.text_content() for cell in cells] for cells in rows):
            begin = 0
            for line in row.text.split("\n\n"):
                paragraph = lxml.html.Element("p")
                paragraph.text = line
                block.append(paragraph)
                end = begin + len(line)
                told[line] = Block(
                    line, ROW, tuple(moved(cell, -begin) for cell in row.cells if begin <= cell.start < end)
                )
                begin = end + len("\n\n")
        block.tail = table.tail
        table.getparent().replace(table, block)
    return told


def _body_text(tree: lxml.html.HtmlElement) -> str:
    for element in list(tree.iter(*_INVISIBLE.split("|"))):
        element.drop_tree()
    for element in tree.iter(*_BLOCKS.split("|")):
        element.text = "\n" + (element.text or "")
        element.tail = "\n" + (element.tail or "")
    return _BLANK_LINES.sub("\n\n", _SPACES.sub(" ", clean_text(tree.text_content()))).strip()
