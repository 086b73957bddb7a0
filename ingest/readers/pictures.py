"""Pictures of text (PNG, JPEG, TIFF, WebP): one page per picture, and one per frame of a TIFF."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from app.errors import DocumentError, ServerLimitError
from app.types.documents import MetadataValue
from ingest.readers.limits import ReadLimits
from ingest.readers.media_types import PICTURES
from ingest.readers.parts import Opened
from ingest.readers.recognized_lines import require_installed
from ingest.readers.recognized_pages import RecognizedPages

_MOST_PIXELS = 120_000_000  # an A2 page at 400 dpi; larger pictures would exceed a reader's memory


def read_picture(stream: BinaryIO, limits: ReadLimits) -> Opened:
    """Opens a picture; its pages are recognised one by one. Raises DocumentError, also without the extra `ocr`."""
    require_installed()
    with opened(stream) as picture:
        count = getattr(picture, "n_frames", 1)
        check_pages(count, limits)
    pages = RecognizedPages(limits)
    metadata: dict[str, MetadataValue] = {"pages": count} if count > 1 else {}

    def frames() -> Iterator[Image.Image]:
        with opened(stream) as picture:
            for number in range(1, count + 1):
                yield frame_of(picture, number)

    pieces = pages.pieces_of_pictures(frames(), count, metadata)
    return pages.opened(pieces, metadata)


def check_pages(count: int, limits: ReadLimits) -> None:
    if count > limits.max_pages:
        raise ServerLimitError(
            f"This picture has {count:,} pages; the limit is {limits.max_pages:,}. Split it, or raise "
            "GIRCSE_MAX_DOCUMENT_PAGES."
        )


@contextmanager
def opened(source: Path | BinaryIO) -> Iterator[Image.Image]:
    """Opens a picture without decoding it. Raises DocumentError if it is damaged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # frame_of checks the size
        Image.MAX_IMAGE_PIXELS = None
        try:
            picture = Image.open(source, formats=list(PICTURES.values()))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise DocumentError(
                f"This picture is damaged, or of another format ({type(error).__name__}). Open it and save it again."
            ) from error
    with picture:
        yield picture


def frame_of(picture: Image.Image, number: int) -> Image.Image:
    """One page, counted from 1, in RGB without transparency, rotated as its Exif data says.

    Raises DocumentError above 120 million pixels, before decoding.
    """
    picture.seek(number - 1)
    width, height = picture.size
    if width * height > _MOST_PIXELS:
        raise DocumentError(
            f"This picture has {width:,} × {height:,} pixels; the limit is {_MOST_PIXELS // 1_000_000} million. "
            "Save it with fewer."
        )
    picture.draft("RGB", (2_400, 2_400))  # a JPEG is decoded at a smaller scale
    upright = ImageOps.exif_transpose(picture)
    if upright.has_transparency_data:
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright.convert("RGBA"))
    if upright.mode.startswith(("I", "F")):  # more than 8 bits per pixel
        values = np.asarray(upright, dtype=np.float64)
        low, high = float(values.min()), float(values.max())
        upright = Image.fromarray(((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8))
    return upright.convert("RGB")
