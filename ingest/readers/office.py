"""Word files: the body in reading order, notes and comments where they are referenced, headers once per section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain

from app.types.texts import ExtractedText
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import DOCX
from ingest.readers.members import ReadMember
from ingest.readers.numbering import Numbers, Styles
from ingest.readers.ooxml import Walk
from ingest.readers.opc import Element, Package, attribute, children, first, is_on, local
from ingest.readers.package import check_package
from ingest.readers.parts import Block
from ingest.readers.shown_files import ShownFiles, read_package
from ingest.readers.tables import join_blocks

_PAGES = re.compile(rb"<Pages>(\d{1,6})</Pages>")
_OF_2003 = {"headerReference": "hdr", "footerReference": "ftr"}  # elements that stand in the section itself
_LABELS = {"footnote": "Footnote", "endnote": "Endnote"}


def read_docx(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A Word document. `read_member` parses files of other formats that it shows."""
    check_package(data, limits, kind="Word document", folder="word/")
    return read_package(data, limits, read_member, lambda package, files: _read(package, files, limits))


def _read(package: Package, files: ShownFiles, limits: ReadLimits) -> ExtractedText:
    title, metadata = package.properties()
    blocks = list(_Document(package, files.text).blocks())
    text, marks, cells = join_blocks(blocks, limits)
    pages = _page_count(package)
    return ExtractedText(
        text,
        title=next((block.text for block in blocks if block.level), title),
        media_type=DOCX,
        metadata=metadata | ({"pages": pages} if pages else {}) | package.notes(),
        marks=marks,
        cells=cells,
    )


class _Document:
    def __init__(self, package: Package, inserted: Callable[[str], str | None]) -> None:
        self._package = package
        self._inserted = inserted
        self._part = package.main_part("word/document.xml")
        self._root = package.root(self._part)
        self._styles = Styles(self._first("styles"))
        self._numbers = Numbers(self._first("numbering"), self._styles)
        self._notes: dict[tuple[str, str], tuple[str, Element]] = {}  # (kind, id) → part and element
        for kind in ("footnote", "endnote", "comment"):
            for part in package.related(self._part, f"{kind}s"):
                root = package.optional(part)
                for note in () if root is None else root.iterchildren(f"{{*}}{kind}"):
                    if attribute(note, "type") in ("", "normal"):
                        self._notes[kind, attribute(note, "id")] = (part, note)
        settings = self._first("settings")
        if settings is None:
            settings = first(self._root, "docPr")  # of Word 2003
        self._has_even_pages = is_on(first(settings, "evenAndOddHeaders"))
        self._shown: set[str] = set()  # texts of headers and footers so far
        # Headers and footers that no section has shown yet, by kind and use: a section has those of the one before.
        self._unshown: dict[tuple[str, str], Element] = {}

    def blocks(self) -> Iterator[Block]:
        walk = self._walk(self._part)
        bodies = list(self._root.iterchildren("{*}body"))  # more than one is against the schema
        sections = [node for node in self._root.iter("{*}sectPr") if local(node.getparent()) != "sectPrChange"]
        ahead = iter(sections)
        section = next(ahead, None)
        yield from self._margins(section, "headerReference")
        for element in chain.from_iterable(map(children, bodies)):
            if element is not section:
                yield from walk.block(element)
                yield from self._referred(walk)
            if section is not None and (element is section or section in element.iter("{*}sectPr")):
                yield from self._margins(section, "footerReference")
                section = next(ahead, None)
                yield from self._margins(section, "headerReference")
        yield from self._margins(section, "footerReference")
        for kind, identity in list(self._notes):  # unreferenced ones, such as replies to comments
            yield from self._note(kind, identity)

    def _walk(self, part: str) -> Walk:
        number, level = self._numbers.before, self._styles.level_of
        return Walk(self._package, part, number=number, level=level, inserted=self._inserted)

    def _first(self, kind: str) -> Element | None:
        return next(map(self._package.optional, self._package.related(self._part, kind)), None)

    def _referred(self, walk: Walk) -> Iterator[Block]:
        while walk.notes:
            yield from self._note(*walk.notes.pop(0))

    def _note(self, kind: str, identity: str) -> Iterator[Block]:
        part, note = self._notes.pop((kind, identity), ("", None))
        if note is None:
            return
        walk = Walk(self._package, part, number=self._numbers.before, inserted=self._inserted)
        text = "\n".join(block.text for block in walk.blocks(note))
        author = " ".join(attribute(note, "author").split())
        label = _LABELS.get(kind) or (f"Comment by {author}" if author else "Comment")
        if text.strip():
            yield Block(f"{label}: {text}")

    def _margins(self, section: Element | None, kind: str) -> Iterator[Block]:
        """Headers or footers of a section, unless the same text was shown before."""
        own = _OF_2003[kind]
        for reference in () if section is None else section.iterchildren(f"{{*}}{kind}", f"{{*}}{own}"):
            self._unshown[kind, attribute(reference, "type")] = reference
        for use in [use for of, use in self._unshown if of == kind]:
            if (use == "first" and not is_on(first(section, "titlePg"))) or (
                use == "even" and not self._has_even_pages
            ):
                continue
            reference = self._unshown.pop((kind, use))
            part, root = self._part, reference
            if local(reference) != own:
                relation = self._package.relations(self._part).get(attribute(reference, "id"))
                linked = self._package.optional(relation.target) if relation else None
                if relation is None or linked is None:
                    continue
                part, root = relation.target, linked
            walk = Walk(self._package, part, inserted=self._inserted)
            text = "\n".join(block.text for block in walk.blocks(root))
            if text.strip() and text not in self._shown:
                self._shown.add(text)
                yield Block(text)


def _page_count(package: Package) -> int:
    """The page count of Word's last save; 0 if it is not stored."""
    for part in package.related("", "extended-properties"):
        try:
            match = _PAGES.search(package.read(part))
        except (KeyError, OSError, EOFError):
            return 0
        return int(match.group(1)) if match else 0
    return 0
