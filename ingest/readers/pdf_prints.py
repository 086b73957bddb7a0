"""Pages that show print which is no text: scans, also with a line of text stamped on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw

from ingest.readers.pdf_pages import draw
from ingest.readers.pdf_words import PageWord, rectangle_of

_WIDTH = 600  # pixels
_CONTRAST = 40  # of 255, between paper and ink
_PAPER, _PAPER_SHARE = 24, 0.4  # of 255, around the colour of the paper, and of a scan's dots: photos have less
_LEAST_INK = 0.0005  # of a scan's dots: a line of text has more
_UNCOVERED = 0.3  # of the ink: a scan with a layer of recognised text has less outside of its words
_MARGIN = 2  # pixels around a word


def share_of_pictures(page: pdfium.PdfPage) -> float:
    """Of the page's area; pictures that overlap count each."""
    across, down = page.get_size()
    return sum((right - left) * (bottom - top) for left, top, right, bottom in _pictures(page)) / max(
        across * down, 1.0
    )


def has_print(page: pdfium.PdfPage, words: Sequence[PageWord]) -> bool:
    """Whether its pictures look like scans of print that none of `words` stands on."""
    across, down = page.get_size()
    picture = draw(page, width=_WIDTH).convert("L")
    grey = np.asarray(picture, dtype=np.int16)
    scale_x, scale_y = grey.shape[1] / max(across, 1.0), grey.shape[0] / max(down, 1.0)
    inside = np.zeros(grey.shape, dtype=bool)
    for left, top, right, bottom in _pictures(page):
        inside[round(top * scale_y) : round(bottom * scale_y), round(left * scale_x) : round(right * scale_x)] = True
    if not inside.any():
        return False
    counts = np.bincount(grey[inside].astype(np.int64), minlength=256)
    paper = int(counts.argmax())
    if counts[max(0, paper - _PAPER) : paper + _PAPER + 1].sum() < _PAPER_SHARE * inside.sum():
        return False
    ink = inside & (np.abs(grey - paper) > _CONTRAST)
    total = int(ink.sum())
    for word in words:
        top, bottom = round(word.top * scale_y) - _MARGIN, round(word.bottom * scale_y) + _MARGIN
        left, right = round(word.left * scale_x) - _MARGIN, round(word.right * scale_x) + _MARGIN
        ink[max(0, top) : max(0, bottom), max(0, left) : max(0, right)] = False
    left_over = int(ink.sum())
    return left_over >= max(_LEAST_INK * inside.sum(), _UNCOVERED * total)


def _pictures(page: pdfium.PdfPage) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of each, on the page as it is shown."""
    across, down = page.get_size()
    found = []
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = item.get_bounds()
        left, top, right, bottom = rectangle_of(page, left, top, right, bottom)
        left, right = max(0.0, left), min(across, right)
        top, bottom = max(0.0, top), min(down, bottom)
        if right > left and bottom > top:
            found.append((left, top, right, bottom))
    return found
