"""Office files as packages: XML parts in a zip archive, linked by relations. Also helpers that ignore XML
namespaces."""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from lxml import etree

from app.errors import DocumentError
from app.types.documents import MetadataValue
from ingest.readers.package import iso_date
from ingest.readers.payloads import Payloads
from ingest.readers.skipped import first_notes

Element: TypeAlias = etree._Element

# What reading a part raises that is missing or damaged, compressed in an unknown way, or encrypted.
DAMAGED_PART = (
    KeyError,
    etree.LxmlError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
)

_LIBRARIES = {"python-docx", "python-pptx", "openpyxl"}  # default authors that libraries write
# Ids are not collected: a document in which one stands twice would be refused, and Office programs open it.
_PARSER = etree.XMLParser(
    resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True, collect_ids=False
)


class Relation(NamedTuple):
    kind: str  # the last segment of its type, such as "footnotes"
    target: str  # a part name, or an external address


class Package:
    """An archive of linked XML parts. Notes about unreadable parts go to `left_out`."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._names = {name.replace("\\", "/").lower(): name for name in self._archive.namelist()}
        self.left_out: list[str] = []
        self.payloads = Payloads()  # in cells of its tables
        self._damaged: set[tuple[str, type[Exception]]] = set()
        self._relations: dict[str, Mapping[str, Relation]] = {}

    def main_part(self, default: str) -> str:
        return next((link.target for link in self.relations("").values() if link.kind == "officeDocument"), default)

    def read(self, part: str) -> bytes:
        """The bytes of a part. Raises KeyError if it does not exist."""
        return self._archive.read(self._names[part.lower()])

    def has(self, part: str) -> bool:
        return part.lower() in self._names

    def root(self, part: str) -> Element:
        return parse_part(self.read(part))

    def optional(self, part: str) -> Element | None:
        """The root of a part. None, and a note in `left_out`, if it cannot be parsed: the rest of the document can."""
        try:
            return self.root(part)
        except DAMAGED_PART as error:
            self.leave_out(part, error)
            return None

    def leave_out(self, part: str, error: Exception) -> None:
        """Notes, once, that a part could not be parsed, or not to its end."""
        if (part, type(error)) not in self._damaged:
            self._damaged.add((part, type(error)))
            self.note(part, f"It is missing or damaged ({type(error).__name__}).")

    def note(self, place: str, reason: str) -> None:
        """Notes why something is left out, and where."""
        self.left_out.append(f"{place}: {reason}")

    def relations(self, part: str) -> Mapping[str, Relation]:
        if part not in self._relations:
            folder, _, name = part.rpartition("/")
            path = posixpath.join(folder, "_rels", f"{name}.rels")
            root = self.optional(path) if self.has(path) else None
            self._relations[part] = {
                node.get("Id", ""): Relation(
                    node.get("Type", "").rpartition("/")[2],
                    _target(folder, node.get("Target", ""), node.get("TargetMode")),
                )
                for node in (() if root is None else root.iter("{*}Relationship"))
            }
        return self._relations[part]

    def beside(self, part: str, target: str) -> str:
        """The part that `part` names by a relative or absolute address."""
        return _target(part.rpartition("/")[0], target, None)

    def related(self, part: str, kind: str) -> list[str]:
        """The parts that `part` links to by relations of this kind, in order."""
        return [link.target for link in self.relations(part).values() if link.kind == kind]

    def properties(self) -> tuple[str, dict[str, MetadataValue]]:
        """Title and metadata of the document."""
        root = next(map(self.optional, self.related("", "core-properties")), None)
        return core_properties(() if root is None else root)

    def notes(self) -> dict[str, MetadataValue]:
        """Metadata about parts that were left out: their number, and the first five notes."""
        count = len(self.left_out)
        notes: dict[str, MetadataValue] = {"skipped_parts": count, "skipped": first_notes(self.left_out, count)}
        return dict(self.payloads.skipped.added_to(notes if count else {}))


def core_properties(nodes: Iterable[Element]) -> tuple[str, dict[str, MetadataValue]]:
    """Title and metadata, from the elements of the part of core properties."""
    values = {local(node): (node.text or "").strip() for node in nodes}
    return values.get("title", ""), {
        key: value
        for key, value in (
            ("author", "" if values.get("creator") in _LIBRARIES else values.get("creator", "")),
            ("created", iso_date(values.get("created", ""))),
            ("modified", iso_date(values.get("modified", ""))),
        )
        if value
    }


def parse_part(data: bytes) -> Element:
    root = etree.fromstring(data, _PARSER)
    refuse_entities(root)
    return root


def refuse_entities(element: Element) -> None:
    """Raises DocumentError if the document declares entities: no Office program does, and they could exhaust memory."""
    dtd = element.getroottree().docinfo.internalDTD
    if dtd is not None and any(dtd.iterentities()):
        raise DocumentError("This document is damaged: a part of it declares entities. Open it and save it again.")


def children(element: Element) -> Iterator[Element]:
    """The child elements. Of alternative contents, yields the first one with text or links."""
    for child in element.iterchildren("*"):
        if local(child) == "AlternateContent":
            choices = list(child.iterchildren("{*}Choice"))
            best = next(filter(_has_content, choices), None)
            for chosen in [best] if best is not None else list(child.iterchildren("{*}Fallback")) or choices[:1]:
                yield from children(chosen)
        else:
            yield child


def _has_content(element: Element) -> bool:
    return any(
        (local(node) == "t" and node.text)
        or any(name.rpartition("}")[2] in ("id", "dm", "embed") and "}" in name for name in node.attrib)
        for node in element.iter("*")
    )


def local(element: Element) -> str:
    """The tag without its namespace: strict and transitional files differ only in namespaces."""
    return _local_name(element.tag)


@lru_cache(4096)
def _local_name(tag: str) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element | None, name: str) -> str:
    """The value of an attribute in any namespace; empty if it is missing."""
    if element is None:
        return ""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def first(element: Element | None, *path: str) -> Element | None:
    """The element at the end of a path of child names, or None."""
    for name in path:
        if element is None:
            return None
        element = next(element.iterchildren(f"{{*}}{name}"), None)
    return element


def _target(folder: str, target: str, mode: str | None) -> str:
    if mode == "External":
        return target
    return posixpath.normpath(posixpath.join("/" + folder, unquote(target).replace("\\", "/"))).lstrip("/")


def is_on(element: Element | None) -> bool:
    """Whether a boolean property is set."""
    return element is not None and attribute(element, "val") not in ("0", "false", "off")
