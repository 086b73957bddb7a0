"""Pages as people see them: pictures, and where their words stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

PICTURE_TYPES = ("image/png", "image/jpeg", "image/tiff", "image/webp")
PAGED_TYPES = ("application/pdf", *PICTURE_TYPES)  # media types of documents whose pages can be looked at
PAGED_SUFFIXES = (".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")  # of their names
# Pixels: what is asked for in between is given in the next larger one.
IMAGE_WIDTHS = (160, 320, 640, 960, 1280, 1920, 2560)


class PlacedWord(NamedTuple):
    """A word and its rectangle, in shares of the width and the height of its page."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class PageWords:
    """A page of a document of `count` pages, as its file tells: its size in any unit, and its words in their order."""

    count: int
    width: float
    height: float
    words: tuple[PlacedWord, ...] = ()


@dataclass(frozen=True, slots=True)
class PageView:
    """A page with a passage on it: `marked` are numbers of the words that belong to the passage."""

    number: int
    count: int
    width: float
    height: float
    words: tuple[PlacedWord, ...]
    marked: tuple[int, ...] = ()
