"""Long texts in parts: where they are cut, that nothing is lost between them, and what an edit changes."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import DocumentError
from app.types.texts import ExtractedText, TextPart
from ingest.points import PresentPoints
from ingest.readers import ReadLimits, encodings
from ingest.readers.document import read_document
from ingest.readers.parts import CONTEXT, Piece, cut_parts, pieces_of
from ingest.readers.text import clean_text, decode_text, decoded, lines_of

SIZE = 2_000


def prose(words: int = 5_000, *, seed: int = 1) -> str:
    rng = random.Random(seed)
    return "".join(
        f"{rng.choice(['tide', 'rock', 'river', 'copper', 'paper'])}{rng.choice(_ENDS)}" for _ in range(words)
    )


_ENDS = (" ",) * 12 + (". ", ".\n", ".\n\n")


def parts_of(text: str, size: int = SIZE) -> list[str]:
    return [part.text for part in cut_parts([Piece(text)], size)]


texts = st.text(st.sampled_from("ab.\n 。\u00e9"), max_size=400)


@given(texts, st.integers(10, 100))
def test_parts_are_the_text_and_none_is_long(whole: str, size: int) -> None:
    parts = parts_of(whole, size)
    assert "".join(parts) == whole
    assert max(map(len, parts)) <= size + CONTEXT
    assert (len(parts) == 1) == (len(whole) <= size + CONTEXT)


@given(st.lists(st.tuples(texts, st.booleans(), st.none() | st.integers(0, 6)), max_size=20), st.integers(10, 100))
def test_marks_and_pages_stand_where_their_pieces_do(pieces: list[tuple[str, bool, int | None]], size: int) -> None:
    made = [Piece(text, begins_page, level) for text, begins_page, level in pieces]
    parts = list(cut_parts(made, size))
    whole = ExtractedText(
        "".join(part.text for part in parts),
        "",
        "",
        page_starts=[page for part in parts for page in part.page_starts],
        marks=[mark for part in parts for mark in part.marks],
    )
    told = [(whole.text[start:end], level) for start, end, level in whole.marks]
    assert told == [(piece.text, piece.level) for piece in made if piece.text and piece.level is not None]
    begin = 0
    for part in parts:
        assert all(begin <= mark.start < begin + len(part.text) for mark in part.marks)
        begin += len(part.text)
    again = list(cut_parts(pieces_of(whole), len(whole.text) + 1))
    assert [(part.text, list(part.marks), list(part.page_starts)) for part in again] == [
        (whole.text, whole.marks, whole.page_starts)
    ]


@given(texts, st.lists(st.integers(1, 30), min_size=1), st.integers(10, 100))
def test_how_the_text_comes_in_does_not_matter(whole: str, lengths: list[int], size: int) -> None:
    pieces: list[Piece] = []
    start = 0
    while start < len(whole):
        length = lengths[len(pieces) % len(lengths)]
        pieces.append(Piece(whole[start : start + length]))
        start += length
    assert [part.text for part in cut_parts(pieces, size)] == parts_of(whole, size)


@pytest.mark.parametrize(
    ("best", "others"),
    [("\n\n", "\n"), ("\n", ". "), (". ", " "), (" ", "")],
    ids=["paragraph", "line", "sentence", "word"],
)
def test_the_best_break_is_taken(best: str, others: str) -> None:
    start = f"word{others}" * SIZE
    whole = start[: SIZE - 150] + best + start[: SIZE // 2]
    assert len(parts_of(whole)[0]) == SIZE - 150 + len(best)


def test_after_an_edit_most_parts_are_the_same() -> None:
    whole = prose(10_000)
    before, after = set(parts_of(whole)), set(parts_of("Put in front of it all. " + whole))
    assert len(before) > 20
    assert len(before - after) <= 3


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(10, 100))
def test_pages_stay_where_they_are(lengths: list[int], size: int) -> None:
    starts, whole = [], ""
    for length in lengths:
        starts.append(len(whole))
        whole += "x" * length + "\n\n"
    parts = list(cut_parts(pieces_of(ExtractedText(whole, "", "", page_starts=starts)), size))
    assert "".join(part.text for part in parts) == whole
    assert [start for part in parts for start in part.page_starts] == starts
    assert all(begin <= start <= begin + len(part.text) for begin, part in begun(parts) for start in part.page_starts)


def begun(parts: list[TextPart]) -> Iterator[tuple[int, TextPart]]:
    begin = 0
    for part in parts:
        yield begin, part
        begin += len(part.text)


def test_a_part_ends_with_a_page_where_there_is_one() -> None:
    pages = ["word. " * 20 + "\n\n" for _ in range(40)]
    parts = list(cut_parts((Piece(page, begins_page=True) for page in pages), SIZE))
    assert len(parts) > 2
    assert all(len(part.text) % len(pages[0]) == 0 for part in parts)


class TestBlockByBlock:
    """What is read block by block is what was read whole."""

    @settings(max_examples=25, deadline=None)
    @given(texts, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "shift_jis"]), st.sampled_from([1, 3, 7]))
    def test_any_text_in_any_encoding(self, whole: str, encoding: str, block_bytes: int) -> None:
        data = whole.replace("\n", "\r\n").encode(encoding, "replace")
        with pytest.MonkeyPatch.context() as patch:
            expected = outcome(lambda: clean_text(decode_text(data).text))
            patch.setattr(encodings, "BLOCK_BYTES", block_bytes + 4)  # a byte order mark is seen whole
            assert outcome(lambda: "".join(decoded(io.BytesIO(data)))) == expected

    @settings(max_examples=30, deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        with pytest.MonkeyPatch.context() as patch:
            expected = outcome(lambda: clean_text(decode_text(b"word " * 40 + data).text))
            patch.setattr(encodings, "BLOCK_BYTES", 11)
            assert outcome(lambda: "".join(decoded(io.BytesIO(b"word " * 40 + data)))) == expected

    @given(texts, st.integers(1, 9))
    def test_lines(self, whole: str, length: int) -> None:
        pieces = [whole[start : start + length] for start in range(0, len(whole), length)]
        assert list(lines_of(pieces)) == list(io.StringIO(whole, newline="\n"))

    def test_unknown_encoding_is_told_from_where_it_shows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(encodings, "_SAMPLE_BYTES", 4_000)
        monkeypatch.setattr(encodings, "BLOCK_BYTES", 1_000)
        whole = "Nothing but ASCII for long.\n" * 400 + "Grüße aus Köln, schöne Bäume über Flüssen.\n" * 40
        assert "".join(decoded(io.BytesIO(whole.encode("cp1252")))) == whole

    def test_bytes_that_are_wrong_far_behind_the_sample_are_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(encodings, "_SAMPLE_BYTES", 4_000)
        monkeypatch.setattr(encodings, "BLOCK_BYTES", 1_000)
        whole = "日本語のテキストです。\n" * 400
        found = "".join(decoded(io.BytesIO(whole.encode("shift_jis") + b"\x81\xff\n" + whole.encode("shift_jis"))))
        assert found.startswith(whole)
        assert "\ufffd" in found
        assert found.endswith(whole[-100:])

    def test_what_is_no_text_is_refused_at_its_end(self) -> None:
        with pytest.raises(DocumentError, match="holds no text"):
            read_document(b"text " * 10 + b"\x01" * 3_000_000, uri="a.txt", limits=ReadLimits())


def outcome(read: object) -> object:
    assert callable(read)
    try:
        return read()
    except DocumentError as error:
        return str(error)


# Ids that end in zeros too, which numpy leaves out.
ids = st.sets(st.uuids() | st.integers(0, 255).map(lambda number: UUID(int=number << 120)))


@given(present=ids, wanted=ids)
def test_points_that_no_chunk_wants_are_told(present: set[UUID], wanted: set[UUID]) -> None:
    points = PresentPoints([*map(str, present), "17"])
    for point_id in wanted:
        assert points.want(str(point_id)) == (point_id in present)
    assert set(points.unwanted()) == {"17", *map(str, present - wanted)}
