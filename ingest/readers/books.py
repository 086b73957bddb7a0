"""EPUB books: all chapters in spine order, with nothing stripped, since books have no menus."""

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
from ingest.readers.html import read_body
from ingest.readers.limits import ReadLimits
from ingest.readers.package import check_package, iso_date
from ingest.readers.tables import join_blocks
from ingest.readers.xml import parse_xml

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTERS = ("application/xhtml+xml", "text/html")
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"


def read_epub(data: bytes, limits: ReadLimits) -> ExtractedText:
    """The text of all chapters, with title and metadata. Raises DocumentError for DRM and for damaged packages."""
    check_package(data, limits, kind="EPUB", folder="META-INF/")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        package_name = _package_name(archive)
        package = parse_xml(archive.read(package_name))
        chapters = list(_chapters(package, posixpath.dirname(package_name)))
        if _encrypted(archive).intersection(chapters):
            raise DocumentError("This EPUB is protected against copying. Add a version without protection.")
        present = set(archive.namelist())
        bodies = (read_body(archive.read(chapter)) for chapter in chapters if chapter in present)
        text, marks, cells = join_blocks(chain.from_iterable(bodies), limits)
    title, metadata = _properties(package)
    return ExtractedText(
        text, title=title, media_type="application/epub+zip", metadata=metadata, marks=marks, cells=cells
    )


def _package_name(archive: zipfile.ZipFile) -> str:
    for element in parse_xml(archive.read(_CONTAINER)).iter():
        if element.tag.endswith("}rootfile") and element.get("full-path"):
            return element.attrib["full-path"]
    raise DocumentError(f"This EPUB is damaged: {_CONTAINER} names no package. Fetch it again.")


def _chapters(package: Element, folder: str) -> Iterator[str]:
    """Yields the names of chapters in the archive, in spine order. A chapter may be missing from the archive."""
    items = {item.get("id"): item for item in package.iter() if item.tag.endswith("}item")}
    for reference in package.iter():
        item = items.get(reference.get("idref")) if reference.tag.endswith("}itemref") else None
        if item is not None and item.get("media-type") in _CHAPTERS and item.get("href"):
            yield posixpath.normpath(posixpath.join(folder, unquote(item.attrib["href"])))


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
