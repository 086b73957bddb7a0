"""XPS and OpenXPS, which Windows prints to: the text of every page in reading order."""

from __future__ import annotations

from collections.abc import Iterator

from app.errors import DocumentError, ServerLimitError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.hyphens import Hyphens
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import XPS
from ingest.readers.opc import Element, Package
from ingest.readers.package import check_package
from ingest.readers.parts import blocks_of
from ingest.readers.pdf_layout import layout_of
from ingest.readers.recognized_pages import ranges
from ingest.readers.slides import join_pages
from ingest.readers.xps_glyphs import Fonts, words_of

_PRINTED_BY = "Microsoft Word - "  # before the name of the file, in titles


def read_xps(data: bytes, limits: ReadLimits) -> ExtractedText:
    """Raises DocumentError for a document without text, ServerLimitError for one with too many pages."""
    check_package(data, limits, kind="XPS document", folder="_rels/")
    package = Package(data)
    pages = list(_pages(package))
    if len(pages) > limits.max_pages:
        raise ServerLimitError(
            f"This XPS document has {len(pages):,} pages; the limit is {limits.max_pages:,}. Split it, or raise "
            "GIRCSE_MAX_DOCUMENT_PAGES."
        )
    texts: list[str] = []
    unread: list[int] = []
    fonts, hyphens = Fonts(package), Hyphens()
    for number, part in enumerate(pages, start=1):
        root = package.optional(part)
        text = "" if root is None else _text(root, fonts, hyphens)
        texts.append(text)
        if not text and root is not None and _has_picture(root):
            unread.append(number)
    if not any(texts):
        raise DocumentError("This XPS document has no text on its pages. Save it as PDF, which is read by OCR.")
    joined = join_pages([list(blocks_of(text)) for text in texts], limits)
    title, metadata = package.properties()
    about: dict[str, MetadataValue] = {**metadata, "pages": len(pages), **package.notes()}
    if unread:
        about["unread_pages"] = ranges(unread)
    return ExtractedText(
        joined.text,
        title="" if title.startswith(_PRINTED_BY) else title,
        media_type=XPS,
        metadata=about,
        page_starts=joined.page_starts,
    )


def _pages(package: Package) -> Iterator[str]:
    """The parts of the pages, in order: a sequence lists documents, and a document lists pages."""
    for sequence in package.related("", "fixedrepresentation"):
        for document in _sources(package, sequence, "DocumentReference"):
            yield from _sources(package, document, "PageContent")


def _sources(package: Package, part: str, name: str) -> list[str]:
    root = package.optional(part)
    if root is None:
        return []
    return [package.beside(part, each.get("Source", "")) for each in root.iter(f"{{*}}{name}")]


def _text(page: Element, fonts: Fonts, hyphens: Hyphens) -> str:
    words = words_of(page, fonts)
    hyphens.note(" ".join(word.text for word in words))
    return layout_of(words, hyphens).text.strip()


def _has_picture(page: Element) -> bool:
    return next(page.iter("{*}ImageBrush"), None) is not None
