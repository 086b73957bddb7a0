"""Small pictures of text, as a scanner makes them: quick to read, and the same every time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
LINES = ("The harbour master counts", "every boat at dawn.")


def picture(lines: Sequence[str] = LINES, *, size: int = 28, width: int = 560) -> Image.Image:
    letters = ImageFont.truetype(str(FONT), size)
    image = Image.new("L", (width, 2 * size + len(lines) * 3 * size // 2), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((size, size + number * 3 * size // 2), line, font=letters, fill=0)
    return image


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def tiff(*images: Image.Image) -> bytes:
    return encoded(images[0], "TIFF", save_all=True, append_images=list(images[1:]))


def scanned_pdf(*pages: Image.Image | str | None) -> bytes:
    """Pages of a picture, of a text layer, or blank."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(400, 300), invariant=True)
    for page in pages:
        if isinstance(page, str):
            canvas.drawString(40, 200, page)
        elif page is not None:
            height = 400 * page.height / page.width
            canvas.drawImage(ImageReader(io.BytesIO(encoded(page, "PNG"))), 0, 300 - height, 400, height)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


@cache
def picture_samples() -> dict[str, bytes]:
    """One of each format, by its name."""
    image = picture()
    return {
        "a.png": encoded(image, "PNG"),
        "a.jpg": encoded(image, "JPEG", quality=80),
        "a.webp": encoded(image, "WEBP", quality=80),
        "a.tiff": tiff(image, picture(("A second page.",))),
        "scan.pdf": scanned_pdf(image, "A page with a text layer that needs no recognition at all, it is said."),
    }
