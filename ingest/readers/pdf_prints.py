"""Detects print in the pictures of a page: scans, even with a line of text stamped on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw

from ingest.readers.pdf_pages import draw
from ingest.readers.pdf_words import PageWord, rectangle_of

_WIDTH = 600  # pixels
_CONTRAST = 40  # of 255, between paper and ink
_PAPER, _PAPER_SHARE = 24, 0.4  # greys near the paper's (of 255), and their least share of pixels: photos have less
_LEAST_INK = 0.0005  # share of a scan's pixels: a line of text has more
_UNCOVERED = 0.3  # share of the ink outside all words: a scan with a layer of recognised text has less
_MARGIN = 2  # pixels around a word


def share_of_pictures(page: pdfium.PdfPage) -> float:
    """The share of the page's area that pictures cover; overlapping pictures count twice."""
    across, down = page.get_size()
    return sum((right - left) * (bottom - top) for left, top, right, bottom in _pictures(page)) / max(
        across * down, 1.0
    )


def has_print(page: pdfium.PdfPage, words: Sequence[PageWord]) -> bool:
    """Whether pictures look like scans of print that `words` do not cover."""
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
    """Left, top, right, bottom of each picture, in points on the page as shown."""
    across, down = page.get_size()
    rectangles = []
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = item.get_bounds()
        left, top, right, bottom = rectangle_of(page, left, top, right, bottom)
        left, right = max(0.0, left), min(across, right)
        top, bottom = max(0.0, top), min(down, bottom)
        if right > left and bottom > top:
            rectangles.append((left, top, right, bottom))
    return rectangles
