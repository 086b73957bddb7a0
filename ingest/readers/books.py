"""EPUB books: all chapters in spine order, with nothing stripped, since books have no menus.

A chapter that is missing or damaged is left out and noted.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator
from itertools import chain
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from app.errors import DocumentError
from app.types.documents import MetadataValue
from app.types.texts import ExtractedText
from ingest.readers.errors import damaged, parser_errors
from ingest.readers.html import read_body
from ingest.readers.limits import ReadLimits
from ingest.readers.package import check_package, iso_date
from ingest.readers.parts import Block
from ingest.readers.skipped import Skipped
from ingest.readers.tables import join_blocks
from ingest.readers.xml import parse_xml

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGE_SUFFIXES = (".xhtml", ".html", ".htm")
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"


def read_epub(data: bytes, limits: ReadLimits) -> ExtractedText:
    """The text of all chapters, with title and metadata. Raises DocumentError for DRM and for damaged packages."""
    check_package(data, limits, kind="EPUB", folder="META-INF/")
    lost = Skipped("parts")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        package_name = _package_name(archive)
        package = parse_xml(archive.read(package_name))
        names = _Names(archive, posixpath.dirname(package_name))
        chapters = list(dict.fromkeys(_chapters(package, names, lost)))
        if _encrypted(archive).intersection(chapters):
            raise DocumentError("This EPUB is protected against copying. Add a version without protection.")
        bodies = (_body(archive, chapter, lost) for chapter in chapters)
        text, marks, cells = join_blocks(chain.from_iterable(bodies), limits)
    title, metadata = _properties(package)
    if lost and not text:
        raise DocumentError(f"None of the chapters of this EPUB can be read. {lost.reasons}")
    return ExtractedText(
        text,
        title=title,
        media_type="application/epub+zip",
        metadata=lost.added_to(metadata),
        marks=marks,
        cells=cells,
    )


def _body(archive: zipfile.ZipFile, chapter: str, lost: Skipped) -> list[Block]:
    try:
        return read_body(archive.read(chapter))
    except DocumentError as error:
        lost.note(chapter, str(error))
    except parser_errors() as error:
        lost.note(chapter, str(damaged("EPUB", error)))
    return []


class _Names:
    """Finds files by the names that a package gives them: as they are, percent-encoded, or in other case."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        self._folder = folder
        self._present = {name: name for name in archive.namelist()}
        self._alike = {unquote(name).casefold(): name for name in self._present}

    def find(self, href: str) -> str | None:
        path = posixpath.normpath(posixpath.join(self._folder, href))
        without_fragment = path.partition("#")[0]
        for name in (path, unquote(path), without_fragment, unquote(without_fragment)):
            if found := self._present.get(name) or self._alike.get(name.casefold()):
                return found
        return None


def _package_name(archive: zipfile.ZipFile) -> str:
    for element in parse_xml(archive.read(_CONTAINER)).iter():
        if element.tag.endswith("}rootfile") and element.get("full-path"):
            return element.attrib["full-path"]
    raise DocumentError(f"This EPUB is damaged: {_CONTAINER} names no package. Fetch it again.")


def _chapters(package: Element, names: _Names, lost: Skipped) -> Iterator[str]:
    """Yields the names of chapters in the archive, in spine order; without a spine, in the order of the manifest."""
    items = {item.get("id"): item for item in package.iter() if item.tag.endswith("}item")}
    spine = [node.get("idref", "") for node in package.iter() if node.tag.endswith("}itemref")]
    for identity in spine or [item.get("id", "") for item in items.values() if _is_page(item)]:
        item = items.get(identity)
        href = item.get("href", "") if item is not None else ""
        if item is None or not href:
            lost.note(f"spine, {identity}", "The list of files has no such chapter.")
        elif (found := names.find(href)) is None:
            lost.note(unquote(href), "It is missing from the archive.")
        elif _is_page(item):
            yield found


def _is_page(item: Element) -> bool:
    """Whether an item is a text. Old packages and careless programs name its type in many ways."""
    kind = item.get("media-type", "").lower()
    return ("ncx" not in kind and any(word in kind for word in ("html", "xml", "oeb"))) or item.get(
        "href", ""
    ).lower().endswith(_PAGE_SUFFIXES)


def _encrypted(archive: zipfile.ZipFile) -> set[str]:
    """Names of encrypted files. Fonts are often obfuscated by a public scheme; chapters are encrypted only by DRM."""
    if _ENCRYPTION not in archive.namelist():
        return set()
    root = parse_xml(archive.read(_ENCRYPTION))
    return {unquote(node.get("URI", "")) for node in root.iter() if node.tag.endswith("}CipherReference")}


def _properties(package: Element) -> tuple[str, dict[str, MetadataValue]]:
    def first(name: str) -> str:
        return next((text for node in package.iter(_DUBLIN_CORE + name) if (text := (node.text or "").strip())), "")

    modified = next((node.text for node in package.iter() if node.get("property") == "dcterms:modified"), None)
    metadata: dict[str, MetadataValue] = {}
    if author := first("creator"):
        metadata["author"] = author
    if created := iso_date(first("date")):
        metadata["created"] = created
    if changed := iso_date(modified or ""):
        metadata["modified"] = changed
    return first("title"), metadata
