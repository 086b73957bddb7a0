"""Pages that look like scans, and what stands where on them, for `scans.py`, which measures how they are read.

The texts are those of the sample library. The same seed makes the same pages.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from app.documents.library import SampleRow, sample_rows

FONTS = tuple(
    Path("/usr/share/fonts/truetype/dejavu") / f"DejaVu{name}.ttf"  # Debian's fonts-dejavu
    for name in ("Serif", "Sans", "SansCondensed", "SerifCondensed", "Serif-Italic")
)
PAGE_INCHES = (8.27, 11.69)
MARGIN = 0.9


@dataclass(frozen=True, slots=True)
class TruePage:
    """`words` and their rectangles, in shares of the page as it is shown, in the order of reading."""

    words: tuple[str, ...]
    places: tuple[tuple[float, float, float, float], ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Scan:
    name: str
    kind: str
    data: bytes = field(repr=False)
    pages: tuple[TruePage, ...] = field(repr=False)
    questions: tuple[tuple[str, int], ...] = ()  # and the number of the page that answers


def scans(seed: int = 1) -> Iterator[Scan]:
    """Forty documents of seven kinds."""
    rng = random.Random(seed)
    rows = _rows(rng)
    for kind, count in (
        ("clean 300 dpi", 10),
        ("skewed", 6),
        ("noisy", 6),
        ("two columns", 6),
        ("rotated", 4),
        ("150 dpi", 4),
        ("mixed with text pages", 4),
    ):
        for number in range(count):
            yield _scan(kind, number, rows, rng)


def long_scan(page_count: int, seed: int = 2) -> bytes:
    """A PDF of so many scanned pages."""
    rng = random.Random(seed)
    rows = [row for row in sample_rows() if len(row.text) > 200]
    pictures = []
    for _ in range(page_count):
        texts = [row.text for row in rng.sample(rows, 5)]
        pictures.append(_noisy(draw_page(texts, rng.choice(FONTS[:4]), dpi=200)[0], rng, sigma=6))
    return _pdf_of(pictures)


def text_pdf(page_count: int, seed: int) -> tuple[bytes, tuple[TruePage, ...]]:
    """With a text layer, in one column or two; of texts that stand on no scan."""
    rng = random.Random(seed)
    rows = _others()[_ON_SCANS:]
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(595, 842), invariant=True)
    pages = []
    for number in range(page_count):
        texts = [row.text for row in rng.sample(rows, 4)]
        pages.append(_draw_text_page(canvas, texts, columns=1 + number % 2))
        canvas.showPage()
    canvas.save()
    return buffer.getvalue(), tuple(pages)


def questions() -> dict[str, str]:
    """By the passage that answers."""
    with Path(__file__).with_name("scan_questions.tsv").open(encoding="utf-8") as lines:
        return dict(line.rstrip("\n").split("\t") for line in lines)


_ON_SCANS = 100


def _others() -> list[SampleRow]:
    """Texts that answer no question, in an order of their own."""
    asked = questions()
    others = [row for row in sample_rows() if len(row.text) >= 250 and row.id not in asked]
    random.Random(0).shuffle(others)
    return others


def _rows(rng: random.Random) -> Iterator[list[SampleRow]]:
    """For a page each: a passage, which answers a question on the first forty, and two others."""
    asked = questions()
    answering = [row for row in sample_rows() if row.id in asked]
    rng.shuffle(answering)
    others = _others()[:_ON_SCANS]
    more = iter(others[80:])
    for at in range(48):
        first = answering[at] if at < len(answering) else next(more)
        beside = others[2 * at : 2 * at + 2] if at < 40 else [next(more)]
        yield [first, *beside]


def _scan(kind: str, number: int, rows: Iterator[list[SampleRow]], rng: random.Random) -> Scan:
    count = 3 if kind == "mixed with text pages" else 1
    chosen = [next(rows) for _ in range(count)]
    dpi = 150 if kind == "150 dpi" else 300
    font = FONTS[number % len(FONTS)]
    pictures, pages = [], []
    for page_rows in chosen:
        texts = [_plain(row.text) for row in page_rows]
        picture, page = draw_page(texts, font, dpi=dpi, columns=2 if kind == "two columns" else 1)
        if kind == "skewed":
            picture, page = skewed(picture, page, degrees=rng.choice((-3, -2, -1, 1, 2, 3)))
        if kind == "rotated":
            picture, page = turned(picture, page, quarters=1 + number % 3)
        if kind == "noisy":
            picture = _noisy(picture, rng, sigma=18)
        pictures.append(picture)
        pages.append(page)
    asked = questions()
    answered = tuple(
        (asked[row.id], at) for at, rows_of in enumerate(chosen, start=1) for row in rows_of if row.id in asked
    )
    slug = f"{kind.replace(' ', '-')}-{number}"
    if kind == "mixed with text pages":
        data, pages[0], pages[2] = _mixed_pdf(pictures[1], [[_plain(row.text) for row in each] for each in chosen])
        return Scan(f"{slug}.pdf", kind, data, tuple(pages), answered)
    suffix = ("png", "jpg", "tiff", "webp", "pdf")[number % 5]
    return Scan(f"{slug}.{suffix}", kind, _file_of(pictures[0], suffix, dpi), tuple(pages), answered)


def _plain(text: str) -> str:
    """What a typewriter has, as far as the text allows."""
    return " ".join(text.split())


def draw_page(
    texts: Sequence[str], font: Path, *, dpi: int, columns: int = 1, points: float = 11
) -> tuple[Image.Image, TruePage]:
    width, height = (round(side * dpi) for side in PAGE_INCHES)
    picture = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(picture)
    letters = ImageFont.truetype(str(font), round(points * dpi / 72))
    step, left, gap = round(points * dpi / 72 * 1.45), round(MARGIN * dpi), round(0.35 * dpi)
    column_width = (width - 2 * left - (columns - 1) * gap) // columns
    words: list[str] = []
    places: list[tuple[float, float, float, float]] = []
    lines = [line for text in texts for line in [*_lines(text, letters, column_width), ""]]
    per_column = math.ceil(len(lines) / columns)
    for at, line in enumerate(lines):
        column, row = divmod(at, per_column)
        x, y = left + column * (column_width + gap), left + row * step
        if y > height - left:
            continue
        draw.text((x, y), line, font=letters, fill=0)
        for word, offset in _offsets(line):
            low = x + draw.textlength(line[:offset], font=letters)
            high = x + draw.textlength(line[: offset + len(word)], font=letters)
            words.append(word)
            places.append((low / width, y / height, high / width, (y + 0.85 * step) / height))
    return picture, TruePage(tuple(words), tuple(places))


def _lines(text: str, letters: ImageFont.FreeTypeFont, width: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and letters.getlength(longer) > width:
            yield line
            line = word
        else:
            line = longer
    if line:
        yield line


def _offsets(line: str) -> Iterator[tuple[str, int]]:
    at = 0
    for word in line.split():
        at = line.index(word, at)
        yield word, at
        at += len(word)


def skewed(picture: Image.Image, page: TruePage, *, degrees: float) -> tuple[Image.Image, TruePage]:
    width, height = picture.size
    angle = math.radians(-degrees)
    cos, sin = math.cos(angle), math.sin(angle)

    def moved(x: float, y: float) -> tuple[float, float]:
        dx, dy = x * width - width / 2, y * height - height / 2
        return (cos * dx - sin * dy) / width + 0.5, (sin * dx + cos * dy) / height + 0.5

    turned_picture = picture.rotate(degrees, resample=Image.Resampling.BICUBIC, fillcolor=255)
    return turned_picture, _moved(page, moved)


def turned(picture: Image.Image, page: TruePage, *, quarters: int) -> tuple[Image.Image, TruePage]:
    """Against the clock."""

    def moved(x: float, y: float) -> tuple[float, float]:
        for _ in range(quarters):
            x, y = y, 1 - x
        return x, y

    return picture.rotate(90 * quarters, expand=True), _moved(page, moved)


def _moved(page: TruePage, moved) -> TruePage:  # type: ignore[no-untyped-def]
    places = []
    for left, top, right, bottom in page.places:
        corners = [moved(x, y) for x in (left, right) for y in (top, bottom)]
        xs, ys = [x for x, _ in corners], [y for _, y in corners]
        places.append((min(xs), min(ys), max(xs), max(ys)))
    return TruePage(page.words, tuple(places))


def _noisy(picture: Image.Image, rng: random.Random, *, sigma: float) -> Image.Image:
    """Grey paper, blurred letters, grain, and specks."""
    noise = np.random.default_rng(rng.randrange(2**32))
    blurred = np.asarray(picture.filter(ImageFilter.GaussianBlur(1.0)), dtype=np.float32)
    values = 30 + blurred * (200 / 255) + noise.normal(0, sigma, blurred.shape)
    specks = noise.random(blurred.shape)
    values[specks < 0.0005] = 20
    values[specks > 0.9995] = 250
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _file_of(picture: Image.Image, suffix: str, dpi: int) -> bytes:
    if suffix == "pdf":
        return _pdf_of([picture])
    buffer = io.BytesIO()
    options = {"jpg": {"quality": 80}, "webp": {"quality": 85}, "tiff": {"compression": "tiff_lzw"}}.get(suffix, {})
    picture.save(buffer, {"jpg": "JPEG"}.get(suffix, suffix.upper()), dpi=(dpi, dpi), **options)
    return buffer.getvalue()


def _pdf_of(pictures: Sequence[Image.Image]) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=True)
    for picture in pictures:
        size = (842, 595) if picture.width > picture.height else (595, 842)
        canvas.setPageSize(size)
        _draw_picture(canvas, picture, size)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def _draw_picture(canvas: Canvas, picture: Image.Image, size: tuple[int, int]) -> None:
    jpeg = io.BytesIO()
    picture.save(jpeg, "JPEG", quality=80)
    canvas.drawImage(ImageReader(jpeg), 0, 0, *size)


def _mixed_pdf(picture: Image.Image, texts: Sequence[Sequence[str]]) -> tuple[bytes, TruePage, TruePage]:
    """A scan between two pages with a text layer."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(595, 842), invariant=True)
    first = _draw_text_page(canvas, texts[0], columns=1)
    canvas.showPage()
    _draw_picture(canvas, picture, (595, 842))
    canvas.showPage()
    last = _draw_text_page(canvas, texts[2], columns=2)
    canvas.showPage()
    canvas.save()
    return buffer.getvalue(), first, last


def _draw_text_page(canvas: Canvas, texts: Sequence[str], *, columns: int) -> TruePage:
    width, height, left, size, gap = 595, 842, 60, 10, 24
    column_width = (width - 2 * left - (columns - 1) * gap) / columns
    words: list[str] = []
    places: list[tuple[float, float, float, float]] = []
    font = "Times-Roman"
    canvas.setFont(font, size)
    lines: list[str] = []
    for text in texts:
        line = ""
        for word in text.encode("latin-1", "ignore").decode("latin-1").split():
            longer = f"{line} {word}".strip()
            if line and stringWidth(longer, font, size) > column_width:
                lines.append(line)
                line = word
            else:
                line = longer
        lines += [line, ""]
    per_column = math.ceil(len(lines) / columns)
    for at, line in enumerate(lines):
        column, row = divmod(at, per_column)
        x, y = left + column * (column_width + gap), height - left - row * size * 1.3
        if y < left:
            continue
        canvas.drawString(x, y, line)
        for word, offset in _offsets(line):
            low = x + stringWidth(line[:offset], font, size)
            high = x + stringWidth(line[: offset + len(word)], font, size)
            words.append(word)
            places.append(
                (low / width, (height - y - 0.75 * size) / height, high / width, (height - y + 0.2 * size) / height)
            )
    return TruePage(tuple(words), tuple(places))
