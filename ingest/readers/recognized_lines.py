"""What recognition finds in a picture, and whether it is installed; its models take a second to import."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.errors import DocumentError

Quad = NDArray[np.float32]  # corners: left and right at the top, right and left at the bottom

READ_SIDE = 2_400  # pixels of the longer side of what is read: an A4 page at 200 dpi


class RecognitionError(Exception):
    """The models or OpenCV failed on a picture."""


class RecognizedWord(NamedTuple):
    """`left` and `right` are shares of the length of its line."""

    text: str
    left: float
    right: float
    confidence: float


class RecognizedLine(NamedTuple):
    quad: Quad
    words: tuple[RecognizedWord, ...]


class RecognizedLines(NamedTuple):
    """`turns`: by how many quarters, against the clock, the picture was turned; quads are those of the turned one."""

    lines: tuple[RecognizedLine, ...]
    turns: int
    width: int
    height: int


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("cv2", "rapidocr"))


def require_installed() -> None:
    """Raises DocumentError."""
    if not is_installed():
        raise DocumentError(
            "This is a picture: to read it by OCR, run pip install 'gircse-search[ocr]' on the server, then retry the "
            "job."
        )
