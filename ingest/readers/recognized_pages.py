"""Pages with text recognition: pieces of the document's text, and which pages could not be read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from PIL import Image

from app.errors import DocumentError
from app.types.documents import MetadataValue
from ingest.readers.limits import ReadLimits
from ingest.readers.parts import Opened, Piece
from ingest.readers.reading_order import PageText, page_text
from ingest.readers.recognized_lines import RecognitionError

_PAGE_BREAK = "\n\n"
_WORST_PAGE = 0.6  # least confidence of a page; below, its text is useless for search
_LEAST_CONTRAST = 40  # of 255, between paper and ink
_FEWEST_DOTS = 25  # dark pixels of a page scaled down: two letters have more
_MOST_NAMED = 200  # characters of a list of page numbers


class RecognizedPages:
    """Recognises pages one by one. `read`: numbers of pages with recognised text; `unread`: of pages where it failed or
    was skipped."""

    def __init__(self, limits: ReadLimits) -> None:
        self._left = limits.max_recognized_pages
        self._weights: list[tuple[float, int]] = []
        self.read: list[int] = []
        self.unread: list[int] = []
        self.title = ""

    @property
    def has_left(self) -> bool:
        """Whether another page may be recognised."""
        return self._left > 0

    def page(self, picture: Image.Image, number: int) -> PageText:
        """The text of a page; empty for a blank page, and for one that could not be recognised."""
        self._left -= 1
        if not has_ink(picture):
            return PageText("", (), 1.0)
        from ingest.readers.recognition import recognize  # the extra takes a second to import

        try:
            recognized = page_text(recognize(picture))
        except RecognitionError:
            recognized = PageText("", (), 0.0)
        if not recognized.text.strip() or recognized.confidence < _WORST_PAGE:
            self.unread.append(number)
            return PageText("", (), recognized.confidence)
        self.read.append(number)
        self._weights.append((recognized.confidence, len(recognized.text)))
        self.title = self.title or recognized.title
        words = tuple(word._replace(page=number) for word in recognized.words)
        return recognized._replace(words=words)

    def skip(self, number: int) -> None:
        """Records a page as unread: recognition is not installed, or its limit of pages is reached."""
        self.unread.append(number)

    def note(self, metadata: dict[str, MetadataValue]) -> None:
        """Adds notes about these pages to the metadata of the document."""
        if self.read:
            letters = sum(count for _, count in self._weights)
            share = sum(value * count for value, count in self._weights) / letters
            metadata["recognized_pages"] = len(self.read)
            metadata["recognition_confidence"] = round(share, 2)
        if self.unread:
            metadata["unread_pages"] = ranges(self.unread)

    def pieces_of_pictures(
        self, pictures: Iterator[Image.Image], count: int, metadata: dict[str, MetadataValue]
    ) -> Iterator[Piece]:
        """Yields the pieces of a document whose `count` pages are pictures. Adds the notes at the end."""
        for number in range(1, count + 1):
            if number > 1:
                yield Piece(_PAGE_BREAK)
            if not self.has_left:
                self.skip(number)
                yield Piece("", begins_page=True)
                continue
            yield Piece("", share=(number - 1) / count)
            recognized = self.page(next(pictures), number)
            yield Piece(recognized.text, begins_page=True, words=recognized.words)
        self.note(metadata)

    def opened(self, pieces: Iterator[Piece], metadata: dict[str, MetadataValue]) -> Opened:
        """The document of these pieces. Its title comes from the first page with text."""
        return Opened("", metadata, self._titled(pieces), late_title=lambda: self.title)

    def _titled(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        has_text = False
        for piece in pieces:
            has_text = has_text or bool(piece.text.strip())
            yield piece
        if not has_text:
            raise DocumentError(
                "No text was recognised in this picture. Scan it again, larger, straighter or with more contrast, if "
                "there is some."
            )


def has_ink(picture: Image.Image) -> bool:
    """Whether there is print on the page, even if faint; a few specks do not count."""
    small = picture.convert("L")
    small.thumbnail((600, 600))
    counts = small.histogram()
    paper = max(range(256), key=counts.__getitem__)
    differing = sum(count for value, count in enumerate(counts) if abs(value - paper) > _LEAST_CONTRAST)
    return differing >= _FEWEST_DOTS


def jpeg(picture: Image.Image, *, width: int) -> bytes:
    """The picture as a JPEG, scaled down to `width` pixels if it is wider."""
    if picture.width > width:
        height = max(1, round(picture.height * width / picture.width))
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    picture.save(written, "JPEG", quality=85, optimize=False)
    return written.getvalue()


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `1-3, 7`; cut after 200 characters."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
    return text if len(text) <= _MOST_NAMED else text[: text.rfind(",", 0, _MOST_NAMED)] + ", …"
