"""Pages of documents for display: image widths, and words with their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

PICTURE_TYPES = ("image/png", "image/jpeg", "image/tiff", "image/webp")
PAGED_TYPES = ("application/pdf", *PICTURE_TYPES)  # media types of documents whose pages can be shown
PAGED_SUFFIXES = (".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")  # suffixes of these types
# In pixels. A request for another width gets the next larger one.
IMAGE_WIDTHS = (160, 320, 640, 960, 1280, 1920, 2560)


class PlacedWord(NamedTuple):
    """A word and its rectangle, as fractions of the page's width and height."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class PageWords:
    """A page of a document with `count` pages, from its file: its size in any unit, and its words in order."""

    count: int
    width: float
    height: float
    words: tuple[PlacedWord, ...] = ()


@dataclass(frozen=True, slots=True)
class PageView:
    """A page with a passage on it. `marked`: indices of the words that belong to the passage."""

    number: int
    count: int
    width: float
    height: float
    words: tuple[PlacedWord, ...]
    marked: tuple[int, ...] = ()
