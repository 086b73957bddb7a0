"""Office files as packages: XML parts in a zip archive that name each other; and their XML without its namespaces."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from lxml import etree

from app.errors import DocumentError
from app.types.documents import MetadataValue
from ingest.readers.package import iso_date

Element: TypeAlias = etree._Element

_MAX_TOLD = 5  # reasons why something was left out
_LIBRARIES = {"python-docx", "python-pptx", "openpyxl"}  # as the author: the default of what wrote it
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)


class Relation(NamedTuple):
    kind: str  # the last word of its type, as "footnotes"
    target: str  # the name of a part, or an address


class Package:
    """An archive of XML parts that name each other. What cannot be read is noted in `left_out`."""

    def __init__(self, data: bytes) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._names = {name.replace("\\", "/").lower(): name for name in self._archive.namelist()}
        self.left_out: list[str] = []
        self._relations: dict[str, Mapping[str, Relation]] = {}

    def main_part(self, default: str) -> str:
        return next((each.target for each in self.relations("").values() if each.kind == "officeDocument"), default)

    def read(self, part: str) -> bytes:
        """Raises KeyError when there is no such part."""
        return self._archive.read(self._names[part.lower()])

    def has(self, part: str) -> bool:
        return part.lower() in self._names

    def root(self, part: str) -> Element:
        return parse_part(self.read(part))

    def optional(self, part: str) -> Element | None:
        """None, and a note, when it cannot be read; the rest of the document can."""
        try:
            return self.root(part)
        except (KeyError, etree.LxmlError, zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
            self.left_out.append(f"{part}: It is missing or damaged ({type(error).__name__}).")
            return None

    def relations(self, part: str) -> Mapping[str, Relation]:
        if part not in self._relations:
            folder, _, name = part.rpartition("/")
            path = posixpath.join(folder, "_rels", f"{name}.rels")
            root = self.optional(path) if self.has(path) else None
            self._relations[part] = {
                each.get("Id", ""): Relation(
                    each.get("Type", "").rpartition("/")[2],
                    _target(folder, each.get("Target", ""), each.get("TargetMode")),
                )
                for each in (() if root is None else root.iter("{*}Relationship"))
            }
        return self._relations[part]

    def related(self, part: str, kind: str) -> list[str]:
        """The parts that this one names as being of that kind, in their order."""
        return [each.target for each in self.relations(part).values() if each.kind == kind]

    def properties(self) -> tuple[str, dict[str, MetadataValue]]:
        """The title and the metadata."""
        root = next(map(self.optional, self.related("", "core-properties")), None)
        found = {} if root is None else {local(each): (each.text or "").strip() for each in root}
        return found.get("title", ""), {
            key: value
            for key, value in (
                ("author", "" if found.get("creator") in _LIBRARIES else found.get("creator", "")),
                ("created", iso_date(found.get("created", ""))),
                ("modified", iso_date(found.get("modified", ""))),
            )
            if value
        }

    def notes(self) -> dict[str, MetadataValue]:
        """For the metadata of the document: how many parts were left out, the first of them, and why."""
        if not self.left_out:
            return {}
        more = len(self.left_out) - _MAX_TOLD
        told = "\n".join(self.left_out[:_MAX_TOLD]) + (f"\nand {more:,} more" if more > 0 else "")
        return {"skipped_parts": len(self.left_out), "skipped": told}


def parse_part(data: bytes) -> Element:
    root = etree.fromstring(data, _PARSER)
    refuse_entities(root)
    return root


def refuse_entities(element: Element) -> None:
    """No Office program writes them; they could fill the memory."""
    dtd = element.getroottree().docinfo.internalDTD
    if dtd is not None and any(dtd.iterentities()):
        raise DocumentError("This document is damaged: a part of it declares entities. Open it and save it again.")


def children(element: Element) -> Iterator[Element]:
    """Of alternative contents the first that says something."""
    for child in element.iterchildren("*"):
        if local(child) == "AlternateContent":
            choices = list(child.iterchildren("{*}Choice"))
            best = next(filter(_says_something, choices), None)
            for chosen in [best] if best is not None else list(child.iterchildren("{*}Fallback")) or choices[:1]:
                yield from children(chosen)
        else:
            yield child


def _says_something(element: Element) -> bool:
    return any(
        (local(each) == "t" and each.text)
        or any(name.rpartition("}")[2] in ("id", "dm", "embed") and "}" in name for name in each.attrib)
        for each in element.iter("*")
    )


def local(element: Element) -> str:
    """The name without its namespace: strict and transitional files differ in the namespaces alone."""
    return _local_name(element.tag)


@lru_cache(4096)
def _local_name(tag: str) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element | None, name: str) -> str:
    """Whatever its namespace; empty when there is none."""
    if element is None:
        return ""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def first(element: Element | None, *path: str) -> Element | None:
    """The first descendant along this path of names."""
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
    """Whether a property of yes or no is set."""
    return element is not None and attribute(element, "val") not in ("0", "false", "off")
