"""The texts of a presentation of PowerPoint 95, which keeps them in a stream of their own, one after the other."""

from __future__ import annotations

import io
import re

from ingest.readers.code_pages import codec_of_code_page
from ingest.readers.containers import open_compound_file
from ingest.readers.errors import parser_errors
from ingest.readers.parts import Block

_TEXTS = "Text_Content"
_BETWEEN_BOXES = re.compile(r"\r{2,}")
_WESTERN = 1252


def blocks_of_1995(data: bytes) -> list[Block]:
    """A block for each text box; none for other files. Which slide shows a box is not known."""
    try:
        with open_compound_file(io.BytesIO(data)) as compound:
            if not compound.exists(_TEXTS):
                return []
            texts = compound.openstream(_TEXTS).read()
            page = compound.get_metadata().codepage or _WESTERN
    except parser_errors():
        return []
    shown = texts.decode(codec_of_code_page(page & 0xFFFF), "replace").replace("\v", "\r")
    boxes = (box.replace("\r", "\n").strip() for box in _BETWEEN_BOXES.split(shown))
    return [Block(box) for box in boxes if box]
