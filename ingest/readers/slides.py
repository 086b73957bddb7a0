"""PowerPoint presentations, a page per slide: titles, text, tables and notes. Needs the extra `office`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from app.errors import DocumentError
from app.types.texts import Cell, ExtractedText, Mark
from ingest.readers.limits import ReadLimits, check_length
from ingest.readers.media_types import PPTX
from ingest.readers.package import check_package, core_metadata
from ingest.readers.parts import Block, moved
from ingest.readers.tables import join_blocks, render_rows

try:
    import pptx
    from pptx.exc import PythonPptxError
    from pptx.shapes.autoshape import Shape
    from pptx.shapes.base import BaseShape
    from pptx.shapes.graphfrm import GraphicFrame
    from pptx.shapes.group import GroupShape
    from pptx.slide import Slide
except ImportError:
    pptx = None  # type: ignore[assignment]

_SLIDE_BREAK = "\n\n"


def read_pptx(data: bytes, limits: ReadLimits) -> ExtractedText:
    if pptx is None:
        raise DocumentError(
            "PowerPoint presentations need a library that is not installed. Run pip install 'gircse-search[office]' "
            "on the server, then retry the job."
        )
    check_package(data, limits, kind="PowerPoint presentation", folder="ppt/")
    try:
        presentation = pptx.Presentation(io.BytesIO(data))
    except PythonPptxError as error:
        raise DocumentError(f"This PowerPoint presentation is damaged ({error}). Open it and save it again.") from error
    count = len(presentation.slides)
    if count > limits.max_pages:
        raise DocumentError(
            f"This presentation has {count:,} slides; the limit is {limits.max_pages:,}. Split it, or raise "
            "GIRCSE_MAX_DOCUMENT_PAGES."
        )
    texts: list[str] = []
    starts: list[int] = []
    marks: list[Mark] = []
    cells: list[Cell] = []
    length = 0
    for slide in presentation.slides:
        starts.append(length)
        text, own, own_cells = join_blocks(_slide_blocks(slide), limits)
        texts.append(text)
        marks += [Mark(length + start, length + end, level) for start, end, level in own]
        cells += [moved(cell, length) for cell in own_cells]
        length += len(text) + len(_SLIDE_BREAK)
        check_length(length, limits)
    if not any(texts):
        raise DocumentError("This presentation has no text: its slides hold pictures. Add a version with text.")
    first = next((slide.shapes.title for slide in presentation.slides if slide.shapes.title is not None), None)
    properties = presentation.core_properties
    metadata = core_metadata(properties.author, properties.created, properties.modified, ignored_author="python-pptx")
    return ExtractedText(
        _SLIDE_BREAK.join(texts),
        title=(first.text_frame.text.strip() if first else "")
        or properties.title.replace("PowerPoint Presentation", ""),
        media_type=PPTX,
        metadata={**metadata, "pages": count},
        page_starts=tuple(starts),
        marks=tuple(marks),
        cells=tuple(cells),
    )


def _slide_blocks(slide: Slide) -> Iterator[Block]:
    title = slide.shapes.title
    yield from _shape_blocks(slide.shapes, title_id=None if title is None else title.shape_id)
    if slide.has_notes_slide:
        notes = slide.notes_slide.notes_text_frame
        if notes is not None and notes.text.strip():
            yield Block(f"Notes: {notes.text.strip()}")


def _shape_blocks(shapes: Iterable[BaseShape], *, title_id: int | None) -> Iterator[Block]:
    for shape in shapes:
        if isinstance(shape, GroupShape):
            yield from _shape_blocks(shape.shapes, title_id=title_id)
        elif isinstance(shape, GraphicFrame) and shape.has_table:
            yield from render_rows([cell.text for cell in row.cells] for row in shape.table.rows)
        elif isinstance(shape, Shape) and shape.text_frame.text.strip():
            level = 1 if shape.shape_id == title_id else None
            yield Block(shape.text_frame.text.replace("\v", "\n").strip(), level)
