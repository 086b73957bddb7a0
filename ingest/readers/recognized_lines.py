"""Results of text recognition, and whether it is installed. Does not import the models, which takes a second."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.errors import ServerLimitError

Quad = NDArray[np.float32]  # (4, 2): corners top left, top right, bottom right, bottom left, in pixels

READ_SIDE = 2_400  # longest side in pixels for recognition: an A4 page at 200 dpi


class RecognitionError(Exception):
    """The models or OpenCV failed on a picture."""


class RecognizedWord(NamedTuple):
    """A word. `left` and `right` are shares of its line's length, `confidence` is 0 to 1."""

    text: str
    left: float
    right: float
    confidence: float


class RecognizedLine(NamedTuple):
    quad: Quad
    words: tuple[RecognizedWord, ...]


class RecognizedLines(NamedTuple):
    """The lines of a picture. `turns`: quarter turns, counterclockwise, that set it upright; quads, width and height
    are of the turned picture."""

    lines: tuple[RecognizedLine, ...]
    turns: int
    width: int
    height: int


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("cv2", "rapidocr"))


def require_installed() -> None:
    """Raises DocumentError if text recognition is not installed."""
    if not is_installed():
        raise ServerLimitError(
            "This is a picture: to read it by OCR, run pip install 'gircse-search[ocr]' on the server, then retry all "
            "failed documents."
        )
