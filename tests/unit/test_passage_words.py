"""Which words of a page belong to a passage, though two programs read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.documents.passage_words import words_of_passage

PAGE = [
    "The",
    "harbour",
    "master",
    "counts",
    "every",
    "boat",
    "at",
    "dawn",
    ",",
    "and",
    "the",
    "ferry",
    "leaves",
    "at",
    "noon",
    ".",
    "The",
    "harbour",
    "is",
    "old",
    ".",
]


def marked(passage: str, *, page: list[str] = PAGE, before: str = "") -> str:
    return " ".join(page[at] for at in words_of_passage(page, passage, before=before))


def test_spaces_line_ends_and_hyphens_do_not_matter() -> None:
    assert marked("counts  every\nboat at dawn,") == "counts every boat at dawn ,"
    cut = ["an", "exam-", "ple", "of", "it"]
    assert marked("example of", page=cut) == "exam- ple of"
    assert marked("exam ple", page=["the", "example"]) == "example"


def test_of_several_places_it_is_the_one_after_so_much_text() -> None:
    page = ["boats", "come", ".", "boats", "go", ".", "boats", "stay"]
    for number, at in ((0, 0), (1, 3), (2, 6)):
        before = " ".join(page[:at])
        assert words_of_passage(page, "boats", before=before) == (at,), number


def test_a_passage_whose_columns_stand_in_another_order_is_found_in_pieces() -> None:
    page = [
        "second",
        "column",
        "begins",
        "here",
        "with",
        "words",
        "and",
        "first",
        "column",
        "ends",
        "there",
        "with",
        "others",
    ]
    found = marked("first column ends there with others second column begins here with words", page=page)
    assert found == "second column begins here with words first column ends there with others"


def test_a_few_letters_that_were_read_otherwise_do_not_matter() -> None:
    assert marked("master c0unts every boat at dawn") == "master counts every boat at dawn"


def test_signs_go_with_what_they_stand_by() -> None:
    page = ["see", "(", "this", ")", ".", "Next"]
    assert marked("(this).", page=page) == "( this ) ."
    assert marked("this", page=page) == "this"


def test_what_is_not_on_the_page_marks_nothing() -> None:
    assert marked("Quite another text about volcanoes") == ""
    assert marked("") == ""
    assert marked("…") == ""


@given(st.lists(st.text(max_size=8), max_size=30), st.text(max_size=200))
def test_any_text_gives_numbers_of_words(words: list[str], passage: str) -> None:
    found = words_of_passage(words, passage)
    assert list(found) == sorted(set(found))
    assert all(0 <= at < len(words) for at in found)


@given(st.data())
def test_a_stretch_of_a_page_is_marked_whole(data: st.DataObject) -> None:
    words = [f"{chr(97 + n % 26)}word{n}" for n in range(60)]
    start = data.draw(st.integers(0, 50))
    end = data.draw(st.integers(start + 2, 60))
    assert words_of_passage(words, " ".join(words[start:end])) == tuple(range(start, end))
