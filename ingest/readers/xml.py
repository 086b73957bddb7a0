"""XML of any vocabulary: prose becomes paragraphs, records become `name: value`. Refuses entities and external DTDs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html.entities import name2codepoint
from itertools import chain
from textwrap import dedent
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, fromstring

from app.errors import DocumentError
from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import DOCX, HTML, XLSX
from ingest.readers.members import ReadMember
from ingest.readers.office_xml import package_of, properties_of, sheets_of
from ingest.readers.parts import Block, blocks_of
from ingest.readers.payloads import Payloads
from ingest.readers.sheets import under_heading
from ingest.readers.skipped import Skipped
from ingest.readers.tables import join_blocks, render_fields
from ingest.readers.text import decode_text

_DECLARED_ENCODING = re.compile(rb"""\A\s{0,100}<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_DECLARED_WITHIN = 10_000
# A document type without other declarations than entities, elements and attributes.
_DOCTYPE = re.compile(
    r"(?:\s|<\?(?>[^?]*\?)>|<!--(?>(?:[^-]|-(?!->))*)-->)*+"
    r"(?P<declaration><!DOCTYPE(?>[^\[>\"']|\"[^\"]*\"|'[^']*')*+(?:\[(?P<declared>(?>[^\]\"']|\"[^\"]*\"|'[^']*')*+)\]\s*)?>)"
)
# An entity that stands for a short text without markup, and without further entities.
_ENTITY = re.compile(r"""<!ENTITY\s+(?P<name>[\w.-]{1,40})\s+(?P<quote>["'])(?P<value>[^<&%"']{0,200})(?P=quote)\s*>""")
# A file beside the document, such as a picture, which only an attribute names.
_UNPARSED_ENTITY = re.compile(
    r"<!ENTITY\s+[\w.-]{1,200}\s+(?:SYSTEM|PUBLIC\s+(?:\"[^\"]*\"|'[^']*'))\s+(?:\"[^\"]*\"|'[^']*')\s+NDATA\s+[\w.-]{1,200}\s*>"
)
_REFERENCE = re.compile(r"&(?P<name>[A-Za-z][\w.-]{0,39});")
_OF_XML = {"amp", "lt", "gt", "quot"}
_MOST_ENTITIES, _MOST_REFERENCES = 1_000, 50_000
# Elements of running text in common vocabularies; their names would be noise.
_PROSE = {"p", "para", "simpara", "paragraph", "l", "li"}
# Elements whose line breaks a page shows, of DocBook, DITA, JATS and TEI.
_LISTINGS = {"programlisting", "screen", "literallayout", "synopsis", "codeblock", "msgblock", "pre", "preformat", "eg"}
# Block elements: separate paragraphs even inside mixed content.
_BLOCKS = (
    _PROSE
    | _LISTINGS
    | {
        *(
            "title",
            "head",
            "heading",
            "subtitle",
            "sec",
            "section",
            "div",
            "chapter",
            "article",
            "note",
            "table",
            "tr",
            "td",
        ),
        *(
            "row",
            "cell",
            "entry",
            "list",
            "item",
            "listitem",
            "itemizedlist",
            "orderedlist",
            "figure",
            "caption",
            "quote",
        ),
        *("blockquote", "lg", "sp", "speech", "stage", "entry", "record", "br", "lb"),
    }
)
_SVG = "{http://www.w3.org/2000/svg}"
_WORDS_OF_DRAWINGS = {f"{space}{name}" for name in ("text", "title", "foreignObject") for space in ("", _SVG)}
# Vocabularies that hold pages as text: feeds, notes of Evernote, diagrams (in attributes).
_HOLDING_PAGES = {"rss", "feed", "RDF", "en-export", "mxfile"}
_VALUE = "value"
_PAGE = re.compile(r"<(?:p|div|br|b|i|a|ul|ol|li|span|h[1-6]|img|table|font|strong|em|en-note)\b[^<>]*>", re.IGNORECASE)
_TITLES = ("book-title", "title")  # of FictionBook, of others
# Inline elements of common vocabularies, which do not end a word. All others do.
_INLINE = {
    *("b", "i", "u", "s", "em", "strong", "emph", "emphasis", "hi", "bold", "italic", "sub", "sup", "subscript", "sc"),
    *("superscript", "span", "font", "small", "big", "tt", "code", "w", "c", "g", "seg", "underline", "overline", "ex"),
    *("styled-content", "named-content", "monospace", "smallcap", "ph", "codeph", "mark", "ins", "del", "add", "expan"),
    *("supplied", "unclear", "corr", "sic", "orig", "reg", "choice", "am", "wbr", "t", "r"),
    *("tspan", "textpath"),
}


def read_xml(data: bytes, limits: ReadLimits, charset: str, read_member: ReadMember) -> ExtractedText:
    """XML of any vocabulary. `read_member` parses documents of Word that are one XML file."""
    decoded = decode_text(data, charset, _declared_encoding(data))
    root = _parse(_with_entities(decoded.text))
    if (package := package_of(root)) is not None:
        return read_member(package, uri="document.docx", media_type=DOCX, limits=limits)
    if sheets := sheets_of(root):
        blocks = chain.from_iterable(under_heading(name, rows) for name, rows in sheets)
        text, marks, cells = join_blocks(blocks, limits)
        title, metadata = properties_of(root)
        return ExtractedText(text, title, XLSX, metadata | decoded.metadata, marks=marks, cells=cells)
    title = title_of(root)
    if local_name(root) in _HOLDING_PAGES:
        _unwrap_pages(
            root,
            lambda page: read_member(page.encode(), uri="", media_type=f"{HTML}; charset=utf-8", limits=limits).text,
        )
    skipped = _remove_payloads(root)
    is_drawing = root.tag == f"{_SVG}svg"
    text = join_blocks(map(Block, words_of_drawing(root)) if is_drawing else _paragraphs(root), limits).text
    return ExtractedText(text, title, "application/xml", skipped.added_to(decoded.metadata))


def _remove_payloads(root: Element) -> Skipped:
    """Removes files in base64. Notes them, but for pictures."""
    payloads = Payloads()
    for element in root.iter():
        name = local_name(element)
        element.text = payloads.without(element.text or "", name) or None
        for key, value in element.attrib.items():
            element.attrib[key] = payloads.without(value, name)
    return payloads.skipped


def _unwrap_pages(root: Element, text_of: Callable[[str], str]) -> None:
    """Replaces HTML in texts and values by its paragraphs."""
    for element in list(root.iter()):
        if _PAGE.search(element.text or ""):
            page, element.text = element.text or "", None
        elif _PAGE.search(element.get(_VALUE, "")):
            page = element.attrib.pop(_VALUE)
        else:
            continue
        with suppress(DocumentError):  # it shows nothing
            for at, block in enumerate(blocks_of(text_of(page))):
                paragraph = Element("p")
                paragraph.text = block.text
                element.insert(at, paragraph)


def words_of_drawing(root: Element) -> list[str]:
    """The texts of an SVG in their order, without its metadata and styles."""
    words: list[str] = []
    pending = [root]
    while pending:
        element = pending.pop()
        if element.tag in _WORDS_OF_DRAWINGS:
            for piece in element.iter(f"{_SVG}tspan"):
                if "x" in piece.attrib:  # it begins another line
                    piece.text = f" {piece.text or ''}"
            words.append(line_of(element))
        else:
            pending += reversed(element)
    return list(filter(None, words))


def _with_entities(text: str) -> str:
    """The text with the characters and short texts for which entities stand. Entities of any other kind stay, and are
    refused: they could read files or fill the memory."""
    values = {name: chr(code) for name, code in name2codepoint.items() if name not in _OF_XML}
    doctype = _DOCTYPE.match(text)
    if doctype:
        subset = _UNPARSED_ENTITY.sub("", doctype["declared"] or "")
        declared = list(_ENTITY.finditer(subset))
        if len(declared) != subset.count("<!ENTITY") or len(declared) > _MOST_ENTITIES:
            return text
        if declared and text.count("&") > _MOST_REFERENCES:
            return text
        values |= {entity["name"]: entity["value"] for entity in declared}
        text = text[: doctype.start("declaration")] + text[doctype.end() :]
    elif "<!DOCTYPE" in text[:_DECLARED_WITHIN]:
        return text
    return _REFERENCE.sub(lambda reference: values.get(reference["name"], reference[0]), text)


def parse_xml(data: bytes) -> Element:
    return _parse(decode_text(data, _declared_encoding(data)).text)


def feed_xml(data: bytes, target: object) -> None:
    """Feeds XML to a parser target (`start`, `data`, `end`, `close`), without building a tree. Raises ParseError and
    DocumentError."""
    parser = DefusedXMLParser(target=target)
    with _entities_refused():
        parser.feed(decode_text(data, _declared_encoding(data)).text.lstrip())
        parser.close()


def _declared_encoding(data: bytes) -> str:
    declared = _DECLARED_ENCODING.match(data)
    return declared[1].decode("ascii") if declared else ""


def _parse(text: str) -> Element:
    with _entities_refused():
        return fromstring(text.lstrip())


@contextmanager
def _entities_refused() -> Iterator[None]:
    try:
        yield
    except DefusedXmlException as error:
        raise DocumentError(
            f"This XML declares entities, which could read files or fill the memory ({type(error).__name__}). "
            "Save it with its entities resolved."
        ) from error


def _paragraphs(element: Element) -> Iterator[Block]:
    children = [child for child in element if isinstance(child.tag, str)]
    is_mixed = _is_mixed(element)
    if is_mixed and any(local_name(child).lower() in _BLOCKS for child in children):
        yield from _loose(element)
        return
    if not children or is_mixed:
        yield from _rendered([(local_name(element), line_of(element)), *_attributes(element)])
        return
    fields = _attributes(element)
    for child in children:
        if len(child) == 0:
            fields += [(local_name(child), line_of(child)), *_attributes(child)]
            continue
        yield from _rendered(fields)
        fields = []
        yield from _paragraphs(child)
    yield from _rendered(fields)


def _loose(element: Element) -> Iterator[Block]:
    """Yields the block elements in mixed content, and the text between them as paragraphs."""
    yield from _rendered(_attributes(element))
    text = element.text or ""
    for child in element:
        if isinstance(child.tag, str) and local_name(child).lower() in _BLOCKS:
            if text.strip():
                yield Block(" ".join(text.split()))
            yield from _paragraphs(child) if len(child) else map(Block, filter(None, [line_of(child)]))
            text = child.tail or ""
        else:
            for more in (line_of(child) if isinstance(child.tag, str) else "", child.tail or ""):
                text += _space_between(text, more, local_name(child)) + more
    if text.strip():
        yield Block(" ".join(text.split()))


def _rendered(fields: list[tuple[str, str]]) -> Iterator[Block]:
    record: list[tuple[str, str]] = []
    for name, value in fields:
        if name in _PROSE or name in _LISTINGS:
            yield from render_fields(record)
            record = []
            if value:
                yield Block(value)
        else:
            record.append((name, value))
    yield from render_fields(record)


def _is_mixed(element: Element) -> bool:
    """Whether there is text between the children, as around an emphasised word."""
    texts = [element.text, *(child.tail for child in element)]
    return any(text and text.strip() for text in texts)


def _attributes(element: Element) -> list[tuple[str, str]]:
    # Attributes with a namespace are for machines, such as xsi:schemaLocation.
    return [(name, value) for name, value in element.attrib.items() if not name.startswith("{")]


def line_of(element: Element) -> str:
    """The text on one line; of a listing, its lines. Element edges end words, except those of inline elements."""
    texts: list[str] = []
    last = ""
    # Not recursive: elements may be nested thousands of levels deep.
    stack: list[tuple[str, str] | Element] = [element]
    while stack:
        top = stack.pop()
        if isinstance(top, tuple):
            more, name = top
        else:
            name = local_name(top)
            more = (top.text or "") if name else ""
            for child in reversed(top):
                stack.append((child.tail or "", local_name(child)))
                stack.append(child)
        if more:
            texts.append(_space_between(last, more, name) + more)
            last = more
    text = "".join(texts)
    return dedent(text).strip("\n").rstrip() if local_name(element) in _LISTINGS else " ".join(text.split())


def _space_between(text: str, more: str, name: str) -> str:
    """A space if an element edge separates two words. `name` is the element's."""
    is_glued = text[-1:].isalnum() and more[:1].isalnum() and name.lower() not in _INLINE
    return " " if is_glued else ""


def title_of(root: Element) -> str:
    """The text of the first title; empty without one."""
    return next(
        (line for name in _TITLES for each in root.iter() if local_name(each) == name and (line := line_of(each))), ""
    )


def local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
