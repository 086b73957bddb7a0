"""PowerPoint presentations, a page per slide: text, tables, charts, SmartArt, alternative texts, notes, comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from app.errors import DocumentError, ServerLimitError
from app.types.texts import Cell, ExtractedText, Mark
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.media_types import PPTX
from ingest.readers.members import ReadMember
from ingest.readers.numbering import list_number
from ingest.readers.ooxml import Walk
from ingest.readers.opc import Element, Package, attribute, first
from ingest.readers.package import check_package
from ingest.readers.parts import Block, moved
from ingest.readers.recognized_pages import ranges
from ingest.readers.shown_files import ShownFiles, read_package
from ingest.readers.tables import join_blocks

_SLIDE_BREAK = "\n\n"
_TITLES = {"title", "ctrTitle"}


def read_pptx(data: bytes, limits: ReadLimits, read_member: ReadMember) -> ExtractedText:
    """A presentation. `read_member` parses embedded files of Office that a slide shows."""
    check_package(data, limits, kind="PowerPoint presentation", folder="ppt/")
    return read_package(data, limits, read_member, lambda package, files: _read(package, files, limits))


def _read(package: Package, files: ShownFiles, limits: ReadLimits) -> ExtractedText:
    presentation = package.main_part("ppt/presentation.xml")
    relations = package.relations(presentation)
    shown = first(package.root(presentation), "sldIdLst")
    identities = [] if shown is None else [_identity(slide) for slide in shown.iterchildren("{*}sldId")]
    slides = [relations[identity].target for identity in identities if identity in relations]
    check_slides(slides, limits)
    title, metadata = package.properties()
    pages = [list(_slide_blocks(package, slide, files.text)) for slide in slides]
    _add_fixed_texts(package, slides, pages)
    joined = join_pages(pages, limits)
    if not any(block.text for blocks in pages for block in blocks):
        raise DocumentError("This presentation has no text: its slides hold pictures. Add a version with text.")
    unread = [
        number
        for number, (part, blocks) in enumerate(zip(slides, pages, strict=True), start=1)
        if not blocks and package.related(part, "image")
    ]
    own = next((block.text for blocks in pages for block in blocks if block.level), "")
    return ExtractedText(
        joined.text,
        title=" ".join(own.split()) or title.replace("PowerPoint Presentation", ""),
        media_type=PPTX,
        metadata={
            **metadata,
            "pages": len(slides),
            **({"unread_pages": ranges(unread)} if unread else {}),
            **package.notes(),
        },
        page_starts=joined.page_starts,
        marks=joined.marks,
        cells=joined.cells,
    )


def check_slides(slides: Sequence[object], limits: ReadLimits) -> None:
    """Raises DocumentError if there are too many."""
    if len(slides) > limits.max_pages:
        raise ServerLimitError(
            f"This presentation has {len(slides):,} slides; the limit is {limits.max_pages:,}. Split it, or raise "
            "GIRCSE_MAX_DOCUMENT_PAGES."
        )


def join_pages(pages: list[list[Block]], limits: ReadLimits) -> ExtractedText:
    """Joins blocks of pages to a text with page starts; without title and metadata. Raises DocumentError if too
    long."""
    texts: list[str] = []
    starts: list[int] = []
    marks: list[Mark] = []
    cells: list[Cell] = []
    length = 0
    for blocks in pages:
        starts.append(length)
        text, own, own_cells = join_blocks(blocks, limits)
        texts.append(text)
        marks += [Mark(length + start, length + end, level) for start, end, level in own]
        cells += [moved(cell, length) for cell in own_cells]
        length += len(text) + len(_SLIDE_BREAK)
        check_length(length, limits)
    return ExtractedText(_SLIDE_BREAK.join(texts), "", "", {}, tuple(starts), tuple(marks), tuple(cells))


def _slide_blocks(package: Package, part: str, inserted: Callable[[str], str | None]) -> Iterator[Block]:
    root = package.optional(part)
    tree = first(root, "cSld", "spTree")
    if tree is None:
        return
    walk = Walk(package, part, number=_Lists().before, inserted=inserted)
    shapes = list(tree.iter("{*}sp"))
    title = next((shape for shape in shapes if _placeholder(shape) in _TITLES), None)
    if title is not None:
        yield from (Block(block.text, 1) for block in walk.blocks(title))
        title.getparent().remove(title)
    yield from walk.blocks(tree)
    for notes in package.related(part, "notesSlide"):
        root = package.optional(notes)
        for shape in () if root is None else root.iter("{*}sp"):
            if _placeholder(shape) in ("body", ""):
                yield from (Block(f"Notes: {block.text}") for block in Walk(package, notes).blocks(shape))
    for comments in package.related(part, "comments"):
        yield from _comments(package, comments)


def _authors(package: Package) -> dict[str, str]:
    """The authors of comments, by their ids."""
    presentation = package.main_part("ppt/presentation.xml")
    parts = (*package.related(presentation, "commentAuthors"), *package.related(presentation, "authors"))
    return {
        attribute(author, "id"): attribute(author, "name")
        for root in map(package.optional, parts)
        if root is not None
        for author in root.iter("{*}cmAuthor", "{*}author")
    }


def _comments(package: Package, part: str) -> Iterator[Block]:
    root = package.optional(part)
    authors = _authors(package)
    for comment in () if root is None else root.iter("{*}cm", "{*}reply"):
        text = " ".join(node.text or "" for node in comment.iterchildren("{*}text"))
        body = first(comment, "txBody")
        if body is not None:
            text = "\n".join(block.text for block in Walk(package, part).block(body))
        author = " ".join(authors.get(attribute(comment, "authorId"), "").split())
        if text.strip():
            yield Block(f"Comment by {author}: {text.strip()}" if author else f"Comment: {text.strip()}")


def _add_fixed_texts(package: Package, slides: list[str], pages: list[list[Block]]) -> None:
    """Appends texts of layouts and masters, such as a company name, to the first slide that shows them."""
    seen: set[str] = set()
    added: set[str] = set()
    for slide, blocks in zip(slides, pages, strict=True):
        layouts = package.related(slide, "slideLayout")
        for part in [*layouts, *(master for layout in layouts for master in package.related(layout, "slideMaster"))]:
            if part in seen:
                continue
            seen.add(part)
            for shape in () if (root := package.optional(part)) is None else root.iter("{*}sp"):
                if first(shape, "nvSpPr", "nvPr", "ph") is not None:
                    continue
                body = first(shape, "txBody")
                for block in () if body is None else Walk(package, part).block(body):
                    if block.text not in added:
                        added.add(block.text)
                        blocks.append(block)


class _Lists:
    """Automatic numbers on a slide. A list ends at another kind of paragraph of the same depth."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[str, int]] = {}

    def before(self, paragraph: Element) -> str:
        properties = first(paragraph, "pPr")
        depth = int(depth) if (depth := attribute(properties, "lvl")).isdecimal() else 0
        numbered = first(properties, "buAutoNum")
        for deeper in [other for other in self._counts if other > depth or (numbered is None and other == depth)]:
            del self._counts[deeper]
        if numbered is None:
            return ""
        form, start = attribute(numbered, "type"), attribute(numbered, "startAt")
        known, count = self._counts.get(depth, ("", 0))
        count = count + 1 if known == form else int(start) if start.isdecimal() else 1
        self._counts[depth] = (form, count)
        return list_number(form, count)


def _placeholder(shape: Element) -> str:
    """The kind of a placeholder; empty for other shapes."""
    placeholder = first(shape, "nvSpPr", "nvPr", "ph")
    return "" if placeholder is None else attribute(placeholder, "type") or "body"


def _identity(element: Element) -> str:
    """The relation id (r:id) of a slide. A plain `id` attribute holds the slide's number."""
    return next((value for key, value in element.attrib.items() if key.endswith("}id")), "")
