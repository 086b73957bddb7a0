"""Scans and pictures: read by recognition, page by page, with places and confidence, and told from what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from scan_samples import LINES, encoded, picture, picture_samples, scanned_pdf, tiff

from app.errors import DocumentError
from app.types.texts import POSITIONS, ExtractedText
from ingest.readers import DEFAULT_LIMITS, recognized_lines
from ingest.readers.document import read_document
from ingest.readers.limits import ReadLimits
from ingest.readers.reading_order import page_text
from ingest.readers.recognized_lines import RecognizedLine, RecognizedLines, RecognizedWord
from ingest.readers.recognized_pages import has_ink, ranges

pytestmark = pytest.mark.xdist_group("recognition")  # the models are loaded once
SENTENCE = " ".join(LINES)
TEXT_PAGE = "This page has a text layer with enough letters in it to be taken as it is."
NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 255, (90, 150), dtype=np.uint8))


def read(data: bytes, name: str, **limits: Any) -> ExtractedText:
    return read_document(data, uri=name, limits=ReadLimits(**limits))


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp"])
def test_pictures_are_read_with_the_places_of_their_words(name: str) -> None:
    found = read(picture_samples()[name], name)
    assert plain(found.text) == SENTENCE
    assert found.metadata["recognized_pages"] == 1
    assert 0.8 < found.metadata["recognition_confidence"] <= 1
    assert [found.text[word.start : word.end] for word in found.words] == SENTENCE.split()
    first, last = found.words[0], found.words[-1]
    assert (first.page, first.top) < (last.page, last.top)
    assert first.left < 0.1 * POSITIONS
    assert all(word.confidence > 80 for word in found.words)


def test_each_page_of_a_tiff_is_one() -> None:
    found = read(picture_samples()["a.tiff"], "a.tiff")
    assert found.metadata["pages"] == 2
    assert plain(found.text[: found.page_starts[1]]) == SENTENCE
    assert found.text[found.page_starts[1] :] == "A second page."
    assert {word.page for word in found.words} == {1, 2}


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_page_that_lies_on_its_side_or_head_is_turned(quarters: int) -> None:
    turned = picture().rotate(90 * quarters, expand=True)
    found = read(encoded(turned, "PNG"), "a.png")
    assert plain(found.text) == SENTENCE
    word = found.words[0]  # where it stands on the picture as it came
    dark = np.asarray(turned) < 100
    height, width = dark.shape
    box = dark[
        word.top * height // POSITIONS : word.bottom * height // POSITIONS,
        word.left * width // POSITIONS : word.right * width // POSITIONS,
    ]
    assert box.sum() > 50


def test_of_a_pdf_only_pages_without_text_are_recognised() -> None:
    found = read(scanned_pdf(TEXT_PAGE, picture(), None), "a.pdf")
    pages = [
        plain(found.text[start:end])
        for start, end in zip(found.page_starts, [*found.page_starts[1:], None], strict=True)
    ]
    assert pages == [TEXT_PAGE, SENTENCE, ""]
    assert {word.page for word in found.words} == {2}
    assert found.metadata["recognized_pages"] == 1
    assert "unread_pages" not in found.metadata


def test_pages_that_cannot_be_read_are_told_by_number() -> None:
    found = read(scanned_pdf(TEXT_PAGE, NOISE, picture()), "a.pdf")
    assert found.metadata["unread_pages"] == "2"
    assert SENTENCE in plain(found.text)
    with pytest.raises(DocumentError, match=r"none could be recognised \(pages 1\)"):
        read(scanned_pdf(NOISE), "a.pdf")
    with pytest.raises(DocumentError, match="No text was recognised in this picture"):
        read(encoded(NOISE, "PNG"), "a.png")


def test_no_more_pages_are_recognised_than_may_be() -> None:
    found = read(scanned_pdf(picture(), picture(("Too much.",)), TEXT_PAGE), "a.pdf", max_recognized_pages=1)
    assert found.metadata["unread_pages"] == "2"
    found = read(tiff(picture(), picture()), "a.tiff", max_recognized_pages=1)
    assert (found.metadata["recognized_pages"], found.metadata["unread_pages"]) == (1, "2")


def test_without_the_extra_people_are_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognized_lines, "find_spec", lambda name: None)
    with pytest.raises(DocumentError, match=r"gircse-search\[ocr\]"):
        read(picture_samples()["a.png"], "a.png")
    with pytest.raises(DocumentError, match=r"gircse-search\[ocr\]"):
        read(scanned_pdf(picture()), "a.pdf")
    found = read(scanned_pdf(TEXT_PAGE, picture()), "a.pdf")
    assert (found.metadata["unread_pages"], plain(found.text)) == ("2", TEXT_PAGE)


def test_a_picture_that_is_none_or_too_large_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(DocumentError, match="This picture is damaged"):
        read(b"\x89PNG\r\n\x1a\nnothing", "a.png")
    large = encoded(Image.new("1", (12_000, 12_000)), "PNG")
    assert len(large) < 100_000
    with pytest.raises(DocumentError, match="million"):
        read(large, "a.png")


def test_a_blank_page_has_no_ink_and_a_short_word_has() -> None:
    assert not has_ink(Image.new("L", (2_400, 3_400), 250))
    page = Image.new("L", (2_400, 3_400), 250)
    page.paste(picture(("Yes",), size=50, width=300), (300, 300))
    assert has_ink(page)


def test_pages_are_listed_as_people_write_them() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    assert ranges(range(1, 2_000, 2)).endswith(", …")


def line(text: str, left: float, top: float, *, width: float = 300, height: float = 20) -> RecognizedLine:
    quad = np.array([[left, top], [left + width, top], [left + width, top + height], [left, top + height]], np.float32)
    words = text.split()
    placed = tuple(RecognizedWord(word, at / len(words), (at + 0.9) / len(words), 0.9) for at, word in enumerate(words))
    return RecognizedLine(quad, placed)


def ordered(*lines: RecognizedLine) -> str:
    return page_text(RecognizedLines(lines, 0, 1_000, 1_000)).text


class TestReadingOrder:
    def test_columns_are_read_one_after_the_other_below_a_title_over_both(self) -> None:
        left = [line(f"left {number} goes on and", 50, 100 + 30 * number) for number in range(4)]
        right = [line(f"right {number} goes on and", 500, 100 + 30 * number) for number in range(4)]
        title = line("The title of it all", 50, 20, width=750, height=40)
        mixed = [title, *(each for pair in zip(left, right, strict=True) for each in pair)]
        words = plain(ordered(*mixed)).split()
        assert words[:5] == ["The", "title", "of", "it", "all"]
        order = [word + words[at + 1] for at, word in enumerate(words) if word in ("left", "right")]
        assert order == [f"{side}{number}" for side in ("left", "right") for number in range(4)]

    def test_the_cells_of_a_table_are_read_row_by_row(self) -> None:
        cells = [
            line(f"{name}{row}", 50 + 250 * column, 100 + 30 * row, width=60)
            for row in range(4)
            for column, name in enumerate("abc")
        ]
        assert plain(ordered(*reversed(cells))) == "a0 b0 c0 a1 b1 c1 a2 b2 c2 a3 b3 c3"

    def test_a_word_that_a_line_end_cuts_is_one_again(self) -> None:
        found = page_text(
            RecognizedLines((line("the exam-", 50, 100), line("ple is short.", 50, 130)), 0, 1_000, 1_000)
        )
        assert found.text == "the example is short."
        assert [found.text[word.start : word.end] for word in found.words] == ["the", "exam", "ple", "is", "short."]

    def test_a_gap_ends_a_paragraph(self) -> None:
        text = ordered(*(line(f"line {n} is full", 50, top) for n, top in enumerate((100, 130, 160, 230, 260))))
        assert text.split("\n\n") == ["line 0 is full line 1 is full line 2 is full", "line 3 is full line 4 is full"]
        assert DEFAULT_LIMITS.max_recognized_pages > 0
